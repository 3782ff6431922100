"""The log alone says what the manager says, and what was asked can be asked again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvframe import GroupConfig, IntegrityError, KVCacheManager, Pressure, UsageError
from kvframe.observe import BlockEvents, EventLog, Rebuild, redrive
from kvframe.observe.snapshot import STATES
from tests.manager.helpers import manager

from .walk import Walk

SEED = int(os.environ.get("KVFRAME_SEED", "20261"))
STEPS, BLOCKS, SIZE = 1_500, 24, 4


def group(name: str, kind: str, **options: Any) -> GroupConfig:
    return GroupConfig(name=name, kind=kind, **options)  # type: ignore[arg-type]


FULL = GroupConfig(name="full")
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "null": {"hash": "xxh3-128", "null_block": True},
    "slru": {"policy": "slru"},
    "window": {"groups": [FULL, group("w", "sliding_window", window=6)]},
    "chunked": {"groups": [group("c", "chunked", chunk=8), FULL]},
    "sink": {"groups": [group("s", "sink_window", sink=3, window=6)]},
    "state": {"groups": [FULL, group("s", "state", interval=8)]},
    "wide": {"groups": [group("b", "full", block_size=8), group("w", "sliding_window", window=5)]},
    "lag": {"groups": [FULL, group("d", "full", lag=3)]},
    "cross": {"groups": [FULL, group("x", "cross")]},
    "radix": {"index": "radix"},
    "remap": {"remap_duplicates": True},
    "partial": {"partial_hits": True},
    "partial radix": {"index": "radix", "partial_hits": True},
}
PLAIN = ("plain", "null", "slru", "radix", "remap", "partial", "partial radix")
"""Kinds whose computations can be joined."""


def compare(kv: KVCacheManager, twin: Rebuild) -> None:
    """Everything that both say must agree."""
    assert twin.counts() == kv.counts()
    assert twin.usage() == kv.usage()
    stats = kv.stats()
    # What policies did is their own, and a log does not tell where a call ends.
    own = ("policy_", "admission_", "peak_")
    assert twin.stats() == {n: v for n, v in stats.items() if not n.startswith(own)}
    assert twin.hit_rates() == kv.hit_rates()
    misses = kv.misses()
    assert misses is not None
    assert twin.reasons() == misses.requests
    taken = kv.snapshot()
    blocks = taken.blocks
    told = [(STATES[s], r) for s, r in zip(blocks.state, blocks.refs, strict=True)]
    assert [twin.state(block) for block in range(len(told))] == told
    assert [twin.priority(block) for block in range(len(told))] == blocks.priority.tolist()
    assert twin.lengths == {seq: row.lengths.slots for seq, row in taken.sequences.items()}


def joined(logs: list[EventLog]) -> EventLog:
    requests = {seq: request for log in logs for seq, request in log.requests.items()}
    events = {name: np.concatenate([log.events[name] for log in logs]) for name in logs[0].events}
    return EventLog(events, np.concatenate([log.ids for log in logs]), requests)


@pytest.mark.scenario("I11", "I10", "CB-13", "FE-B19", "S1", "T41")
@pytest.mark.parametrize("kind", KINDS)
def test_a_random_walk_is_rebuilt_and_redriven(kind: str) -> None:
    """A failure prints the seed: run it again with KVFRAME_SEED=..."""
    options = {"event_log": True, **KINDS[kind]}
    kv = manager(BLOCKS, SIZE, **options)
    twin = Rebuild(BLOCKS, SIZE, null_block=options.get("null_block", False))
    dice = random.Random(f"{kind} {SEED}")
    walk = Walk(kv, dice, SIZE, encoder=kind == "cross", joins=kind in PLAIN)
    logs: list[EventLog] = []
    levels: list[Pressure] = []
    try:
        for _ in range(STEPS):
            walk.one()
            kv.check_integrity()
            if not levels or kv.pressure() != levels[-1]:
                levels.append(kv.pressure())
            logs.append(kv.take_log())
            twin.feed(logs[-1])
            compare(kv, twin)
    except BaseException as error:
        error.add_note(f"{kind}, KVFRAME_SEED={SEED}")
        raise
    assert [level for _, level in twin.pressures] == levels[levels[0] == Pressure.NORMAL :]
    stats = kv.stats()
    for name in ("refused", "evictions", "copies", "loads", "leases", "forks", "resumed", "lent"):
        assert stats[name] > 0, name
    assert (stats["joined_tokens"] > 0) == (kind in PLAIN)
    assert (stats["remapped"] > 0) == (kind == "remap")
    whole = joined(logs)
    again = manager(BLOCKS, SIZE, **options)
    retold = redrive(whole, again)
    assert len(retold) > STEPS
    assert again.counts() == kv.counts()
    before, after = kv.stats(), again.stats()
    assert before | {"refused": 0} == after | {"refused": 0}
    again.check_integrity()


@pytest.mark.scenario("I10")
def test_another_configuration_does_otherwise_and_is_told() -> None:
    kv = manager(3, event_log=True)
    for token in range(5):
        seq = kv.admit([token] * 4).seq
        kv.commit(seq, 4)
        kv.release(seq)
    log = kv.take_log()
    assert len(redrive(log, manager(3, event_log=True))) == len(log)
    with pytest.raises(IntegrityError, match="redriven it is"):
        redrive(log, manager(5, event_log=True))


@pytest.mark.scenario("VT66")
def test_taking_drains_once_whichever_way_it_is_taken() -> None:
    kv = manager(8, event_log=True)
    seq = kv.admit([1] * 9).seq
    assert len(kv.take_log()) > 0
    assert len(kv.take_log()) == 0
    kv.commit(seq, 9)
    assert len(kv.take_events()["kind"]) == 3
    log = kv.take_log()
    assert (len(log), len(log.ids), len(log.requests)) == (0, 0, 0)


def test_switched_off_nothing_is_kept() -> None:
    kv = manager(8)
    kv.commit(kv.admit([1] * 9).seq, 9)
    log = kv.take_log()
    assert (len(log), len(log.ids), len(log.requests)) == (0, 0, 0)


def test_sleep_weights_and_wake_are_redriven() -> None:
    kv = manager(8, event_log=True)
    for name in ("a", "b"):
        kv.commit(seq := kv.admit([1] * 9).seq, 9)
        kv.release(seq)
        kv.set_fingerprint(name)
    kv.commit(seq := kv.admit([2] * 9).seq, 9)
    kv.release(seq)
    kv.sleep()
    kv.wake()
    kv.admit([3] * 5, chunk=2)
    log = kv.take_log()
    assert len(redrive(log, manager(8, event_log=True))) == len(log)


@pytest.mark.scenario("VT57")
@pytest.mark.parametrize("fence", [0, 2**63, 2**64 - 1])
def test_a_fence_of_any_number_is_redriven(fence: int) -> None:
    kv = manager(8, event_log=True)
    kv.commit(seq := kv.admit([1] * 9).seq, 9)
    kv.release(seq, fence=fence)
    kv.admit([2] * 5)
    kv.step(passed=fence)
    log = kv.take_log()
    again = manager(8, event_log=True)
    assert len(redrive(log, again)) == len(log)
    assert again.counts() == kv.counts()


def test_arguments_of_another_type_are_refused_by_name() -> None:
    kv = manager(4, 4, event_log=True)
    kv.admit([1, 2, 3])
    log, twin, anything = kv.take_log(), Rebuild(4, 4), 3
    odd: Any = anything
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: Rebuild(0, 4), "blocks = 0: must be an integer between 1 and 4294967295"),
        (lambda: Rebuild(4, odd / 2), "block_size = 1.5: must be an integer between 1 and 65536"),
        (lambda: twin.feed(odd), "log holds 3: must be an EventLog, or its events"),
        (lambda: twin.feed([*log, odd]), "log holds 3: must be an EventLog, or its events"),
        (lambda: twin.state(4), "block = 4: the pool has blocks 0 to 3"),
        (lambda: twin.priority(-1), "block = -1: the pool has blocks 0 to 3"),
        (lambda: redrive(odd, kv), "log = 3: must be an EventLog"),
        (lambda: redrive(log, odd), "fresh = 3: must be a manager"),
        (lambda: BlockEvents(4).feed(odd), "log = 3: must be an EventLog"),
    ]
    for call, told in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == told
    assert twin.counts().free == 4, "what is refused has changed nothing"


@pytest.mark.parametrize(
    ("options", "told"), [({"block_size": 8}, "keys = 2: "), ({"blocks": 1}, "needs 3 blocks")]
)
def test_another_configuration_is_told_with_the_event(options: Any, told: str) -> None:
    kv = manager(8, 4, event_log=True)
    kv.admit(list(range(9)))
    other = manager(**{"blocks": 8, "block_size": 4, **options}, event_log=True)
    with pytest.raises(IntegrityError, match="event 0 was .*, redriven it is refused: " + told):
        redrive(kv.take_log(), other)


@pytest.mark.scenario("I10")
def test_a_cut_beside_a_failed_load_is_redriven() -> None:
    kv = manager(8, event_log=True)
    grant = kv.admit(range(9), num_external_tokens=8)
    assert grant.load is not None
    kv.step(failed=[grant.load], truncate=([grant.seq], [5]))
    assert kv.lengths(grant.seq)[:2] == (5, 0)
    log = kv.take_log()
    again = manager(8, event_log=True)
    assert len(redrive(log, again)) == len(log)
    assert again.lengths(grant.seq) == kv.lengths(grant.seq)
