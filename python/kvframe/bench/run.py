"""Run the cells: one after the other, because their timings are part of the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from kvframe import _core
from kvframe.bench import tiered
from kvframe.bench.admissions import KEEP_ALL
from kvframe.bench.cells import Cell, Measured, Plan
from kvframe.bench.content import Content, content
from kvframe.bench.matchers import OWN
from kvframe.bench.metrics import BUILTIN, Metric
from kvframe.bench.outcomes import RequestOutcomes
from kvframe.bench.progress import Progress
from kvframe.bench.results import ResultStore

Report = Callable[[int, int, Plan], None]
"""Called before a cell starts: finished cells, all cells, the cell."""

Executor = Callable[
    [Sequence[Plan], Callable[[Plan], None], Callable[[Plan, Measured], None]], None
]
"""Runs plans: calls the one before each starts, the other as each is finished."""


class _Replay(msgspec.Struct, frozen=True):
    """What `kvframe._core.replay` answers; see `Cell` for the meaning of the names."""

    requests: int
    input_tokens: int
    hit_tokens: int
    input_tokens_last_half: int
    hit_tokens_last_half: int
    after_gap_hit_tokens: int
    evictions: int
    block_accesses: int
    block_hits: int
    mean_request_hit_rate: float
    seconds: float
    prepare_seconds: float
    admission_dropped: int
    rejected: int
    mean_ttft_seconds: float
    p95_ttft_seconds: float


@dataclass
class Outcome:
    """The finished cells by plan and the outcomes of their requests, what caches held where that
    was asked for, how many cells came from the result directory, and whether Ctrl-C ended the run
    before the rest.
    """

    cells: dict[Plan, Cell] = field(default_factory=dict)
    requests: dict[Plan, RequestOutcomes] = field(default_factory=dict)
    contents: dict[Plan, Content] = field(default_factory=dict)
    reused: int = 0
    interrupted: bool = False


def measure(plan: Plan) -> Measured:
    """Replay one cell; its metrics are not made yet.

    Raises:
        KVFrameError: the policy misbehaved or the core refused the cell.
    """
    gate = plan.admission
    raw = _replay(plan) if plan.tiers is None else tiered.replay(plan, plan.tiers)
    got = msgspec.convert(raw, _Replay)
    cell = Cell(
        trace=plan.source.name,
        policy=plan.label,
        mode=plan.mode,
        block_size=plan.source.trace.block_size,
        capacity_blocks=plan.capacity,
        requests=got.requests,
        input_tokens=got.input_tokens,
        hit_tokens=got.hit_tokens,
        input_tokens_last_half=got.input_tokens_last_half,
        hit_tokens_last_half=got.hit_tokens_last_half,
        token_hit_rate=_ratio(got.hit_tokens, got.input_tokens),
        after_gap_hit_tokens=got.after_gap_hit_tokens,
        evictions=got.evictions,
        block_accesses=got.block_accesses,
        seconds=got.seconds,
        prepare_seconds=got.prepare_seconds,
        block_hit_rate=_ratio(got.block_hits, got.block_accesses),
        mean_request_hit_rate=got.mean_request_hit_rate,
        admission=gate.label if gate is not None else KEEP_ALL,
        admission_dropped=got.admission_dropped,
        prefix=plan.matcher.label if plan.matcher is not None else OWN,
        rejected=got.rejected,
        mean_ttft_seconds=got.mean_ttft_seconds if plan.mode == "timed" else None,
        p95_ttft_seconds=got.p95_ttft_seconds if plan.mode == "timed" else None,
        load=plan.source.load,
        arrival_seed=plan.source.arrival_seed,
        tiers="" if plan.tiers is None else plan.tiers.told,
        tier_hit_tokens=raw.get("tier_hit_tokens", {}),
    )
    held = content(raw["events"]) if "events" in raw else None
    return Measured(cell, _requests(raw), held)


def _replay(plan: Plan) -> dict[str, Any]:
    size, gate = plan.source.trace.block_size, plan.admission
    policy, options = plan.policy.engine_policy(size)
    admission, gate_options = gate.engine_policy(size) if gate is not None else (None, None)
    matcher = plan.matcher.engine_policy(size) if plan.matcher is not None else None
    raw: dict[str, Any] = _core.replay(
        plan.source.trace,
        policy,
        plan.capacity,
        plan.mode,
        options,
        per_request=True,
        log=plan.content,
        admission=admission,
        admission_options=gate_options,
        matcher=matcher,
        core=plan.configured.core(size) if plan.configured is not None else None,
    )
    return raw


def _requests(raw: dict[str, Any]) -> RequestOutcomes:
    return RequestOutcomes(
        raw["request_hit_tokens"],
        raw["request_after_gap_tokens"],
        raw.get("request_ttft_seconds", np.zeros(0)),
    )


def run(
    plans: Sequence[Plan],
    store: ResultStore | None,
    report: Report,
    execute: Executor | None = None,
    metrics: Sequence[Metric] = BUILTIN,
) -> Outcome:
    """Run every plan that the store does not hold yet; store each cell as soon as it is finished.

    Ctrl-C ends the run and keeps what is finished. Without ``execute`` one cell runs after the
    other; where several run at a time their ``seconds`` are not comparable.

    Raises:
        KVFrameError: a cell failed; the cells before it are in the store.
    """
    outcome = Outcome()
    todo = []

    def keep(plan: Plan, measured: Measured) -> None:
        measured = measured.with_metrics(plan, metrics)
        outcome.cells[plan], outcome.requests[plan] = measured.cell, measured.outcomes
        if measured.content is not None:
            outcome.contents[plan] = measured.content

    for plan in plans:
        measured = store.load(plan) if store is not None else None
        if measured is None:
            todo.append(plan)
        else:
            keep(plan, measured)
    outcome.reused = len(outcome.cells)

    def finish(plan: Plan, measured: Measured) -> None:
        keep(plan, measured)
        if store is not None:
            store.save(plan, measured)

    def started(plan: Plan) -> None:
        report(len(outcome.cells), len(plans), plan)

    try:
        (execute or one_by_one)(todo, started, finish)
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome


def one_by_one(
    todo: Sequence[Plan],
    started: Callable[[Plan], None],
    finish: Callable[[Plan, Measured], None],
) -> None:
    """The `Executor` whose timings are worth comparing."""
    for plan in todo:
        started(plan)
        finish(plan, measure(plan))


def run_whole(plans: Sequence[Plan], *, quiet: bool) -> Outcome:
    """Run plans that say nothing until all of them are finished.

    Raises:
        KVFrameError: a cell failed.
        KeyboardInterrupt: Ctrl-C.
    """
    progress = Progress(quiet)
    try:
        outcome = run(plans, None, progress)
    finally:
        progress.clear()
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome


def run_all(plans: Sequence[Plan], *, quiet: bool) -> dict[Plan, Cell]:
    """The cells of `run_whole`.

    Raises:
        KVFrameError, KeyboardInterrupt: As `run_whole`.
    """
    return run_whole(plans, quiet=quiet).cells


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
