"""Why prompt tokens were computed: five reasons that add up to all tokens missed.

::

    cold          no request before had them in this place: not even a cache without a limit hits
    granularity   seen before, but not in a full block that may hit: partial tails, the last token
    capacity      not even the optimum hits them with this capacity, one request at a time
    pinned        timed mode: the optimum loses them to blocks that running sequences hold
    policy        the optimum hits them; below 0 where a policy hits more than opt by the clock

Each is a difference of two replays of the whole trace, so a reason is of the trace and not of a
single request. `MissReason` of a manager (``kv.stats.miss_reasons``) is of single requests, and
knows no optimum.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvframe import _core
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.policies import OPTIMUM

REASONS = ("cold", "granularity", "capacity", "pinned", "policy")


def with_misses(rows: Mapping[Plan, Cell]) -> dict[Plan, Cell]:
    """The same rows, each with its reasons where opt ran at its capacity."""
    best = {
        (plan.group, plan.source.arrival_seed, plan.capacity): cell.hit_tokens
        for plan, cell in rows.items()
        if plan.label == OPTIMUM
    }
    ceilings: dict[object, tuple[int, int]] = {}
    alone: dict[object, int] = {}
    filled = {}
    for plan, cell in rows.items():
        opt = best.get((plan.group, plan.source.arrival_seed, plan.capacity))
        if opt is None or plan.capacity is None:
            filled[plan] = cell
            continue
        if plan.group not in ceilings:
            ceilings[plan.group] = _ceiling(plan, "trace"), _ceiling(plan, plan.mode)
        optimum = opt
        if plan.mode == "timed":
            place = (*plan.group, plan.capacity)
            if place not in alone:
                alone[place] = _opt_alone(plan)
            optimum = alone[place]
        every, ceiling = ceilings[plan.group]
        parts = (
            cell.input_tokens - every,
            every - ceiling,
            ceiling - optimum,
            optimum - opt,
            opt - cell.hit_tokens,
        )
        misses = dict(zip(REASONS, parts, strict=True))
        filled[plan] = msgspec.structs.replace(cell, misses=misses)
    return filled


def _ceiling(plan: Plan, mode: str) -> int:
    """Tokens that a cache without a limit hits."""
    mode = "trace" if mode == "trace" else "engine"
    hits: int = _core.TraceProfile.of(plan.source.trace, mode).facts()["hit_tokens"]
    return hits


def _opt_alone(plan: Plan) -> int:
    """Tokens that the optimum hits with one request at a time."""
    hits: int = _core.replay(plan.source.trace, OPTIMUM, plan.capacity, "engine")["hit_tokens"]
    return hits
