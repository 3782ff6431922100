"""What a table alone would hide: policies that did the same, and facts that the trace lacked."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from itertools import combinations

import numpy as np

from kvframe import _core
from kvframe.bench import capacity
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.field import Outcomes, Rows
from kvframe.bench.lacks import lacks
from kvframe.bench.policies import OPTIMUM
from kvframe.bench.report import grouped

_EVICT = 5
"""The kind of an eviction in the event log."""


def remarks(rows: Rows, outcomes: Outcomes) -> list[str]:
    """Sentences on a run; policies are named once for all traces and sizes."""
    told = [
        f"{one} and {other} evicted the same blocks throughout ({_cells(count)})."
        for (one, other), count in alike(rows, outcomes).items()
    ]
    told += [*_nothing_evicted(rows), *_offered_a_few(rows), *_no_bound(rows)]
    return told + lacks((plan.policy, plan.source) for plan in rows)


def _nothing_evicted(rows: Rows) -> list[str]:
    """Where no size was short of room, sizes that are."""
    told = []
    for group in grouped(rows).values():
        plan = next(iter(group))
        sizes = sorted({each.capacity for each in group if each.capacity is not None})
        if not sizes or any(cell.evictions for cell in group.values()):
            continue
        distinct = plan.source.trace.prepare(plan.mode)["unique_blocks"]
        told.append(
            f"Nothing was evicted from {plan.source.name}: {sizes[0]:,} blocks hold what there is "
            f"of its {distinct:,} distinct ones; try {capacity.SHORT}."
        )
    return told


def _no_bound(rows: Rows) -> list[str]:
    """What a share of the gap to opt is worth where opt is no bound."""
    timed = any(plan.mode == "timed" and plan.policy.name == OPTIMUM for plan in rows)
    told = (
        "In timed mode opt is no bound, but the best rule known for the recorded schedule: a "
        "policy may close more than 100% of the gap to it."
    )
    return [told] if timed else []


def _offered_a_few(rows: Rows) -> list[str]:
    """Policies in Python or compiled ones that chose among a part of the pool, as `lru` has it."""
    told = {}
    for plan in rows:
        window = plan.policy.offered(plan.source.trace.block_size)
        if window and plan.capacity is not None and window < plan.capacity:
            label = plan.label
            told[label] = (
                f"{label} chose among the {window:,} least recently used blocks that may be "
                "evicted: its order of the others had no say. window=0 offers it all."
            )
    return list(told.values())


def alike(rows: Rows, outcomes: Outcomes) -> dict[tuple[str, str], int]:
    """Pairs of policies, by their labels, that evicted the same blocks wherever both evicted any,
    and at how many sizes that was.
    """
    same: dict[tuple[str, str], int] = {}
    differ: set[tuple[str, str]] = set()
    for group in grouped(rows).values():
        for pair, equal in _pairs(group, outcomes).items():
            if equal:
                same[pair] = same.get(pair, 0) + equal
            else:
                differ.add(pair)
    return {pair: count for pair, count in same.items() if pair not in differ}


def _cells(count: int) -> str:
    return "at one size" if count == 1 else f"at all {count} sizes"


def _pairs(rows: Mapping[Plan, Cell], outcomes: Outcomes) -> dict[tuple[str, str], int]:
    """Each pair of policies, and at how many sizes they evicted the same: 0 if at one they did not.

    Sizes at which nothing is evicted do not count. What hits differently has evicted differently;
    of the others the logs are compared.
    """
    by_place: dict[tuple[int | None, int], list[Plan]] = {}
    for plan in rows:
        if not plan.policy.replay_only:
            by_place.setdefault((plan.capacity, plan.source.arrival_seed), []).append(plan)
    found: dict[tuple[str, str], int] = {}
    apart: set[tuple[str, str]] = set()
    logs: dict[Plan, bytes] = {}
    for plans in by_place.values():
        for one, other in combinations(plans, 2):
            pair = one.label, other.label
            if pair in apart or not (rows[one].evictions or rows[other].evictions):
                continue
            if _alike(one, other, rows, outcomes, logs):
                found[pair] = found.get(pair, 0) + 1
            else:
                apart.add(pair)
    return found | dict.fromkeys(apart, 0)


def _alike(one: Plan, other: Plan, rows: Rows, outcomes: Outcomes, logs: dict[Plan, bytes]) -> bool:
    if rows[one].evictions != rows[other].evictions:
        return False
    if not np.array_equal(outcomes[one].hit_tokens, outcomes[other].hit_tokens):
        return False
    for plan in (one, other):
        if plan not in logs:
            logs[plan] = _evicted(plan)
    return logs[one] == logs[other]


def _evicted(plan: Plan) -> bytes:
    """A digest of the blocks that a replay evicts, in order: each policy is replayed once."""
    size, gate, matcher = plan.source.trace.block_size, plan.admission, plan.matcher
    policy, options = plan.policy.engine_policy(size)
    admission, gate_options = gate.engine_policy(size) if gate is not None else (None, None)
    events = _core.replay(
        plan.source.trace,
        policy,
        plan.capacity,
        plan.mode,
        options,
        log=True,
        admission=admission,
        admission_options=gate_options,
        matcher=matcher.engine_policy(size) if matcher is not None else None,
    )["events"]
    return blake2b(events["block"][events["kind"] == _EVICT].tobytes()).digest()
