"""Snapshots are copies of one instant, and speak."""

from __future__ import annotations

import dataclasses
import threading
from itertools import count

import numpy as np
import pytest

from kvframe import HandleError, KVCacheManager, UsageError
from kvframe.stats import Snapshot
from tests.manager.helpers import manager
from tests.workers import beside


def busy() -> tuple[KVCacheManager, int, int]:
    kv = manager(16)
    seq = kv.allocate(range(9)).seq
    kv.commit(seq, 9)
    twin = kv.fork(seq)
    kv.append(twin, [7])
    return kv, seq, twin


@pytest.mark.scenario("CB-14", "MK-B13", "S1")
def test_a_snapshot_says_what_the_manager_says() -> None:
    kv, seq, twin = busy()
    ticket = kv.pins.lease(seq, 8)
    kv.release(twin, fence=3)
    kv.blocks.take(out=np.zeros(1, np.int32))
    taken = kv.inspect.snapshot()
    assert taken.counts == kv.counts()
    assert taken.usage == kv.pressure.usage()
    assert taken.stats == kv.stats.counters()
    assert set(taken.sequences) == {seq}
    row = taken.sequences[seq]
    assert row.lengths == kv.lengths(seq)
    assert np.array_equal(row.tables[0], kv.block_table(seq))
    states = taken.states()
    assert states["free"] == kv.counts().free
    assert states["cached"] == kv.counts().cached
    assert (states["taken"], sum(states.values())) == (1, 16)
    assert [(t.ticket, t.kind) for t in taken.tickets] == [(0, "plan"), (ticket, "lease")]
    ((step, waiting),) = taken.fences
    assert (step, len(set(waiting.tolist()))) == (3, kv.stats.counters()["waiting_blocks"])


@pytest.mark.scenario("MK-B13")
def test_a_snapshot_points_nowhere_and_stays_as_it_was() -> None:
    kv, seq, _ = busy()
    taken = kv.inspect.snapshot()
    refs, table = taken.blocks.refs.copy(), taken.sequences[seq].tables[0].copy()
    kv.release(seq)
    kv.reset_prefix_cache()
    assert np.array_equal(taken.blocks.refs, refs)
    assert np.array_equal(taken.sequences[seq].tables[0], table)
    taken.blocks.refs[:] = 99
    kv.check_integrity()
    with pytest.raises(dataclasses.FrozenInstanceError):
        taken.tick = 0  # type: ignore[misc]


@pytest.mark.scenario("CB-14")
def test_sequences_and_blocks_are_explained() -> None:
    kv, seq, twin = busy()
    told = kv.inspect.explain_sequence(seq)
    assert "9 tokens known, 9 with slots, 9 computed, 0 found" in told
    assert "group 0: 3 blocks" in told
    assert "never seen" in told
    first = int(kv.block_table(seq)[0])
    told = kv.inspect.explain_block(first)
    assert told.startswith(f"block {first} is committed, ")
    assert f"sequence {seq} (group 0, entry 0)" in told
    assert f"sequence {twin} (group 0, entry 0)" in told
    plan = kv.take_plan()
    assert plan
    assert f"the plan of ticket {plan.ticket}" in kv.inspect.explain_block(int(plan.copies[0, 1]))
    kv.done(plan.ticket)
    kv.release(twin)
    kv.release(seq)
    assert "not before the 1 blocks that follow it" in kv.inspect.explain_block(first)
    assert kv.inspect.explain_block(15) == "block 15 is free, 0 owners."
    with pytest.raises(HandleError):
        kv.inspect.explain_sequence(seq)
    with pytest.raises(UsageError, match="0 to 15"):
        kv.inspect.explain_block(16)


@pytest.mark.scenario("MK-B13", "I14", "FE-B28")
def test_snapshots_taken_while_others_work_are_each_of_one_instant() -> None:
    kv = manager(5_000)
    stop = threading.Event()

    def work(worker: int) -> int:
        dice = np.random.default_rng(worker)
        for served in count():
            if stop.is_set():
                return served
            seq = kv.allocate(dice.integers(0, 9, 64)).seq
            kv.commit(seq, 64)
            kv.release(seq)
        raise AssertionError("a count has no end")

    seq = kv.allocate(range(4 * 4_500)).seq
    kv.commit(seq, 4 * 4_500)
    works = [lambda worker=worker: work(worker) for worker in range(3)]
    ticks: list[int] = []
    with beside(*works, stop=stop.set) as workers:
        # Without an end where the workers do nothing, so that their death is no success.
        while len(ticks) < 40 or len(set(ticks)) < 10:
            taken = kv.inspect.snapshot()
            check(taken)
            ticks.append(taken.tick)
            assert len(ticks) < 4_000, "nothing happens between snapshots"
    assert kv.stats.counters()["requests"] == 1 + sum(worker.answer for worker in workers)
    kv.check_integrity()


def check(taken: Snapshot) -> None:
    """The owners counted in the snapshot are those that its blocks have."""
    owners = np.zeros(taken.counts.total, int)
    for row in taken.sequences.values():
        np.add.at(owners, row.tables[0], 1)
    assert np.array_equal(owners, taken.blocks.refs)
    assert taken.states()["free"] == taken.counts.free
    assert taken.stats["live_sequences"] == len(taken.sequences)
