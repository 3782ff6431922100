"""What shadows cost on the engine's thread, beside vLLM's scheduler without a model."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.shadowed import with_shadows
from kvframe_vllm.replay.workload import Families

POLICIES = ("lru", "lfu", "slru", "s3-fifo", "w-tinylfu")
SIZES = (0.5, 1.0, 2.0)
RUNNING = (8, 256)
CALLS = (
    "on_new_request",
    "get_num_new_matched_tokens",
    "update_state_after_alloc",
    "build_connector_meta",
    "request_finished_all_groups",
    "get_kv_connector_stats",
)
"""What the scheduler calls of the connector."""


TURNS = 7


def costs(turns: int) -> list[dict[str, Any]]:
    """The connector's time beside the scheduler's own, for 8 and 256 running requests; medians of
    so many turns.
    """
    rows = []
    for running in RUNNING:
        each = [turn(running) for _ in range(turns)]
        spent, step = (statistics.median(column) for column in zip(*each, strict=True))
        shares = [round(part / whole, 4) for part, whole in each]
        rows.append(
            {
                "running": running,
                "policies": len(POLICIES),
                "sizes": len(SIZES),
                "connector_us": round(spent, 1),
                "step_us": round(step, 1),
                "share": statistics.median(shares),
                "shares": shares,
            }
        )
        print(
            f"{running:>4} running: {spent:6.1f} us of {step:8.1f} us a step, "
            f"{rows[-1]['share']:.2%} of the scheduler's own time",
            flush=True,
        )
    return rows


def turn(running: int) -> tuple[float, float]:
    """Microseconds a step of the connector, and of the whole scheduler, in one run."""
    prompts = Families(requests=max(300, 3 * running)).prompts()
    blocks = max(501, 45 * running)
    load = Load(blocks=blocks, running=running, batch=max(2048, 8 * running))
    extra = {"policies": list(POLICIES), "sizes": list(SIZES)}
    made = scheduler(with_shadows(load, extra))
    connector, spent, idle = made.connector, Spent(), Spent()
    for name in CALLS:
        setattr(connector, name, spent.timed(getattr(connector, name)))
    look = idle.timed(nothing)
    for request in requests(prompts, load.block_size, output=64):
        made.add_request(request)
    gc.collect()
    gc.freeze()
    done = run(made, load, after=lambda *_: look())
    connector.shutdown()
    # A call that does nothing, timed among the others, says what it takes to time one.
    own = (spent.seconds - spent.calls * idle.seconds / idle.calls) / done.steps * 1e6
    return own, done.schedule_us + done.update_us - spent.seconds / done.steps * 1e6


@dataclass
class Spent:
    """Processor time of some calls, that of the clock included."""

    seconds: float = 0.0
    calls: int = 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, whose time is added up."""
        clock = time.thread_time

        def timed_call(*args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds += clock() - start
                self.calls += 1

        return timed_call


def nothing() -> None:
    """What the clock is read around for comparison."""
