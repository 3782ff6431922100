"""Where cells run: in threads of this process, or on a Ray cluster.

Replays in threads share the machine (the core lets go of the interpreter). On a cluster each worker
reads the traces itself, under the names that were asked for, so these must be readable there; the
cells come back here and are kept as they finish. Cells are the same either way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kvframe.bench.cells import Cell, Measured, Plan
from kvframe.bench.content import Content
from kvframe.bench.outcomes import RequestOutcomes
from kvframe.bench.run import Executor, measure, one_by_one
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from kvframe.bench.job import Request

EXECUTORS = ("threads", "ray")

Started = Callable[[Plan], None]
Finish = Callable[[Plan, Measured], None]


def executor(request: Request, plans: Sequence[Plan]) -> Executor:
    """The one that was asked for.

    Args:
        request: What was asked.
        plans: All of its plans, in order: a worker names them by their place.

    Raises:
        ConfigError: Ray is not installed, or standard input would have to be read on a cluster.
    """
    if request.executor == "ray":
        return _on_ray(request, plans)
    return one_by_one if request.jobs == 1 else _in_threads(request.jobs)


def _in_threads(jobs: int) -> Executor:
    def execute(todo: Sequence[Plan], started: Started, finish: Finish) -> None:
        waiting: dict[Future[Measured], Plan] = {}

        def collect(done: Iterable[Future[Measured]]) -> None:
            for future in done:
                finish(waiting.pop(future), future.result())

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for plan in todo:
                    if len(waiting) == jobs:
                        collect(wait(waiting, return_when=FIRST_COMPLETED).done)
                    started(plan)
                    waiting[pool.submit(measure, plan)] = plan
                collect(wait(waiting).done)
            except KeyboardInterrupt:
                # A replay in a thread cannot be interrupted, but it ends soon: keep its cell too.
                collect(wait(waiting).done)
                raise

    return execute


# --- ray ------------------------------------------------------------------------------------------


class Worker:
    """A process of the cluster that has read the traces."""

    def __init__(self, request: Request) -> None:
        from kvframe.bench.job import Job

        self._plans = Job(request).plans

    def run(self, at: int) -> tuple[int, bytes, bytes, bytes | None]:
        """The place of a plan, its cell as JSON, its outcomes, and what the cache held."""
        measured = measure(self._plans[at])
        held = measured.content.pack() if measured.content is not None else None
        return at, msgspec.json.encode(measured.cell), measured.outcomes.pack(), held


def _on_ray(request: Request, plans: Sequence[Plan]) -> Executor:
    try:
        import ray
        from ray.util import ActorPool
    except ImportError:
        raise ConfigError(
            "--executor ray: needs ray; install it with: pip install 'kvframe[ray]'"
        ) from None
    if any(name == "-" for text in request.traces for name in text.split(",")):
        raise ConfigError("--executor ray: a worker cannot read this process's standard input")
    there = dataclasses.replace(request, traces=[_absolute(text) for text in request.traces])

    def execute(todo: Sequence[Plan], started: Started, finish: Finish) -> None:
        if not todo:
            return
        place = {plan: at for at, plan in enumerate(plans)}
        mine = not ray.is_initialized()
        if mine:
            # Connects where RAY_ADDRESS says, or starts a cluster of this machine's cores.
            ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
        try:
            remote: Any = ray.remote(Worker)
            pool = ActorPool([remote.remote(there) for _ in range(min(request.jobs, len(todo)))])

            def submit(worker: Any, plan: Plan) -> Any:
                started(plan)
                return worker.run.remote(place[plan])

            for at, cell, outcomes, held in pool.map_unordered(submit, list(todo)):
                decoded = msgspec.json.decode(cell, type=Cell)
                # Workers read traces by path. The result gets the names that were asked for.
                named = msgspec.structs.replace(decoded, trace=plans[at].source.name)
                content = Content.unpack(held) if held is not None else None
                finish(plans[at], Measured(named, RequestOutcomes.unpack(outcomes), content))
        finally:
            if mine:
                ray.shutdown()

    return execute


def _absolute(names: str) -> str:
    """A comma list, its files by their whole path."""
    each = (Path(name.strip()) for name in names.split(","))
    return ",".join(str(path.absolute()) if path.exists() else str(path) for path in each)
