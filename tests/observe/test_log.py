"""The log alone says what the manager says, and what was asked can be asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvframe import IntegrityError, KVCacheManager, Pressure, UsageError
from kvframe.stats import BlockEvents, EventLog, Rebuild, redrive
from kvframe.stats.snapshot import STATES
from tests.amounts import amount, first_seed
from tests.manager.helpers import manager

from ..oracle.kinds import Kind
from ..oracle.machine import Setup
from .walk import Walk

SEED = first_seed()
STEPS = amount(400, 1_500)


KINDS = {
    "plain": Setup(blocks=24),
    "null": Setup(blocks=24, hash="xxh3-128", null=True),
    "slru": Setup(blocks=24, policy="slru"),
    "window": Setup(blocks=24, kinds=(Kind("full", 4), Kind("sliding_window", 4, 6))),
    "chunked": Setup(blocks=24, kinds=(Kind("chunked", 4, 8), Kind("full", 4))),
    "sink": Setup(blocks=24, kinds=(Kind("sink_window", 4, 6, sink=3),)),
    "state": Setup(blocks=24, kinds=(Kind("full", 4), Kind("state", 4, interval=8))),
    "wide": Setup(blocks=24, kinds=(Kind("full", 8), Kind("sliding_window", 4, 5))),
    "lag": Setup(blocks=24, kinds=(Kind("full", 4), Kind("full", 4, lag=3))),
    "cross": Setup(blocks=24, kinds=(Kind("full", 4), Kind("cross", 4))),
    "radix": Setup(blocks=24, index="radix"),
    "remap": Setup(blocks=24, remap=True),
    "partial": Setup(blocks=24, partial=True),
    "partial radix": Setup(blocks=24, index="radix", partial=True),
    "retained": Setup(blocks=24, retains=True),
}


def compare(kv: KVCacheManager, twin: Rebuild) -> None:
    """Everything that both say must agree."""
    assert twin.counts() == kv.counts()
    assert twin.usage() == kv.pressure.usage()
    stats = kv.stats.counters()
    # What policies did is their own, and a log does not tell where a call ends.
    own = ("policy_", "admission_", "peak_")
    assert twin.stats() == {n: v for n, v in stats.items() if not n.startswith(own)}
    assert twin.hit_rates() == kv.stats.hit_rates()
    misses = kv.stats.miss_reasons()
    assert misses is not None
    assert twin.reasons() == misses.requests
    taken = kv.inspect.snapshot()
    blocks = taken.blocks
    told = [(STATES[s], r) for s, r in zip(blocks.state, blocks.refs, strict=True)]
    assert [twin.state(block) for block in range(len(told))] == told
    assert [twin.priority(block) for block in range(len(told))] == blocks.priority.tolist()
    assert twin.lengths == {seq: row.lengths.slots for seq, row in taken.sequences.items()}


@pytest.mark.scenario("I11", "I10", "CB-13", "FE-B19", "S1", "T41")
@pytest.mark.parametrize("kind", KINDS)
def test_a_random_walk_is_rebuilt_and_redriven(kind: str) -> None:
    """A failure prints the seed: run it again with KVFRAME_SEED=..."""
    setup = KINDS[kind]
    walk = Walk(setup, f"{kind} {SEED}")
    kv, twin = walk.kv, Rebuild(setup.blocks, setup.size, null_block=setup.null)
    levels: list[Pressure] = []
    kv.pressure.add_callback(lambda _, level: levels.append(level))
    logs: list[EventLog] = []
    try:
        for _ in range(STEPS):
            logs.append(walk.one())
            kv.check_integrity()
            twin.feed(logs[-1])
            compare(kv, twin)
    except BaseException as error:
        error.add_note(f"{kind}, KVFRAME_SEED={SEED}")
        raise
    assert [level for _, level in twin.pressures] == levels
    stats = kv.stats.counters()
    assert min(stats["refused"], stats["evictions"]) > 0
    again = setup.manager()
    retold = redrive(EventLog.joined(logs), again)
    assert len(retold) > STEPS
    assert again.counts() == kv.counts()
    assert stats | {"refused": 0} == again.stats.counters() | {"refused": 0}
    again.check_integrity()


@pytest.mark.scenario("I10")
def test_another_configuration_does_otherwise_and_is_told() -> None:
    kv = manager(3, event_log=True)
    for token in range(5):
        seq = kv.allocate([token] * 4).seq
        kv.commit(seq, 4)
        kv.release(seq)
    log = kv.log.take()
    assert len(redrive(log, manager(3, event_log=True))) == len(log)
    with pytest.raises(IntegrityError, match="redriven it is"):
        redrive(log, manager(5, event_log=True))


@pytest.mark.scenario("VT66")
def test_taking_drains_once_whichever_way_it_is_taken() -> None:
    kv = manager(8, event_log=True)
    seq = kv.allocate([1] * 9).seq
    assert len(kv.log.take()) > 0
    assert len(kv.log.take()) == 0
    kv.commit(seq, 9)
    assert len(kv.log.take_events()["kind"]) == 3
    log = kv.log.take()
    assert (len(log), len(log.ids), len(log.requests)) == (0, 0, 0)


def test_a_log_that_is_off_is_not_taken() -> None:
    kv = manager(8)
    kv.commit(kv.allocate([1] * 9).seq, 9)
    calls: list[Callable[[], object]] = [kv.log.take, kv.log.take_events]
    for call in calls:
        with pytest.raises(UsageError, match=r"cache.event_log = false: .* set it to true"):
            call()


def test_sleep_weights_and_wake_are_redriven() -> None:
    kv = manager(8, event_log=True)
    for name in ("a", "b"):
        kv.commit(seq := kv.allocate([1] * 9).seq, 9)
        kv.release(seq)
        kv.set_weight_version(name)
    kv.commit(seq := kv.allocate([2] * 9).seq, 9)
    kv.release(seq)
    kv.sleep()
    kv.wake()
    kv.allocate([3] * 5, chunk=2)
    log = kv.log.take()
    assert len(redrive(log, manager(8, event_log=True))) == len(log)


@pytest.mark.scenario("VT57")
@pytest.mark.parametrize("fence", [0, 2**63, 2**64 - 1])
def test_a_fence_of_any_number_is_redriven(fence: int) -> None:
    kv = manager(8, event_log=True)
    kv.commit(seq := kv.allocate([1] * 9).seq, 9)
    kv.release(seq, fence=fence)
    kv.allocate([2] * 5)
    kv.step(passed=fence)
    log = kv.log.take()
    again = manager(8, event_log=True)
    assert len(redrive(log, again)) == len(log)
    assert again.counts() == kv.counts()


def test_arguments_of_another_type_are_refused_by_name() -> None:
    kv = manager(4, 4, event_log=True)
    kv.allocate([1, 2, 3])
    log, twin, anything = kv.log.take(), Rebuild(4, 4), 3
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
    kv.allocate(list(range(9)))
    other = manager(**{"blocks": 8, "block_size": 4, **options}, event_log=True)
    with pytest.raises(IntegrityError, match="event 0 was .*, redriven it is refused: " + told):
        redrive(kv.log.take(), other)


@pytest.mark.scenario("I10")
def test_a_cut_beside_a_failed_load_is_redriven() -> None:
    kv = manager(8, event_log=True)
    grant = kv.allocate(range(9), num_external_tokens=8)
    assert grant.load is not None
    kv.step(failed=[grant.load], truncate=([grant.seq], [5]))
    assert kv.lengths(grant.seq)[:2] == (5, 0)
    log = kv.log.take()
    again = manager(8, event_log=True)
    assert len(redrive(log, again)) == len(log)
    assert again.lengths(grant.seq) == kv.lengths(grant.seq)
