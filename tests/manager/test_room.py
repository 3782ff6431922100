"""Room: pressure, reserve, whole-sequence admission, preemption order, and a pool that changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    KVCacheManager,
    Pressure,
    PressureConfig,
    UsageError,
)
from kvframe.policies import BatchedEviction

from .helpers import cached, manager, registry, state

NORMAL, HIGH, CRITICAL = Pressure


def room(blocks: int, **pressure: Any) -> KVCacheManager:
    cache = CacheConfig(capacity=blocks, block_size=4)
    return KVCacheManager(Config(cache=cache, pressure=PressureConfig(**pressure)))


# --- pressure -------------------------------------------------------------------------------------


@pytest.mark.scenario("FE-B11", "FE-B12")
def test_levels_rise_at_their_mark_and_fall_below_the_one_before() -> None:
    kv = room(20)
    assert (kv.pressure.usage(), kv.pressure.level()) == (0.0, NORMAL)
    lent: list[int] = []
    told = []
    for used in (16, 17, 18, 15, 14, 13, 16, 19, 18, 17, 16, 14, 20, 13, 20, 14, 0):
        if used > len(lent):
            out = np.zeros(used - len(lent), np.int32)
            kv.blocks.take(out=out)
            lent += out.tolist()
        else:
            kv.blocks.free(np.array(lent[used:], np.int32))
            del lent[used:]
        assert kv.pressure.usage() == used / 20
        told.append(kv.pressure.level())
    rising = [NORMAL, HIGH, HIGH, HIGH, HIGH, NORMAL]
    falling = [NORMAL, CRITICAL, CRITICAL, CRITICAL, HIGH, HIGH]
    assert told == [*rising, *falling, CRITICAL, NORMAL, CRITICAL, HIGH, NORMAL]


@pytest.mark.scenario("FE-B12", "CB-B14")
def test_cached_blocks_are_no_pressure() -> None:
    kv = room(4)
    cached(kv, range(16))
    assert (kv.counts().cached, kv.pressure.usage(), kv.pressure.level()) == (4, 0.0, NORMAL)


@pytest.mark.scenario("CB-B14")
@pytest.mark.parametrize(
    "marks",
    [
        {"low": 0.0},
        {"low": 0.9},
        {"high": 0.7},
        {"critical": 1.01},
        {"high": 0.95},
        {"high": float("nan")},
        {"reserve": 8},
        {"reserve": -1},
    ],
)
def test_marks_out_of_order_are_refused(marks: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"pressure"):
        room(8, **marks)


@pytest.mark.scenario("FE-B13", "I14")
def test_a_policy_may_ask_the_manager_while_it_decides() -> None:
    told = []

    class Asks(BatchedEviction):
        def score(self, candidates: Any, out: Any) -> None:
            told.append((kv.pressure.level(), kv.counts().cached, kv.pressure.usage()))
            out[:] = 0

    kv = manager(4, policy="asks", known=registry("asks", lambda _: Asks()))
    cached(kv, range(16))
    kv.allocate([9] * 4)
    assert told == [(NORMAL, 4, 0.0)]


# --- who is let in --------------------------------------------------------------------------------


@pytest.mark.scenario("VT29")
def test_admissions_leave_the_reserve_to_those_that_run() -> None:
    kv = room(6, reserve=2)
    runs = kv.allocate([1] * 16, chunk=8).seq
    before = state(kv, [runs])
    with pytest.raises(CapacityError, match="needs 5 blocks, but only 4"):
        kv.allocate([2] * 12)
    assert state(kv, [runs]) == before
    assert kv.allocate([2] * 12, partial=True).granted_tokens == 8
    kv.extend(runs, 16)
    assert kv.counts().free == 0


def test_the_reserve_keeps_nobody_out_of_an_empty_house() -> None:
    kv = room(6, reserve=2)
    kv.release(kv.allocate([1] * 24).seq)


# --- who gives way --------------------------------------------------------------------------------


@pytest.mark.scenario("V21")
def test_the_cheapest_gives_way_first() -> None:
    kv = manager(900, 16)
    seqs = []
    for at, length in enumerate((8000, 4000, 100)):
        seqs.append(kv.allocate([at] * length, priority=[1, 0, 2][at]).seq)
        kv.commit(seqs[-1], length)
    order = kv.pressure.preemption_order(seqs)
    assert [v.seq for v in order] == seqs[::-1]
    assert [(v.frees, v.computed) for v in order] == [(7, 100), (250, 4000), (500, 8000)]
    last = kv.pressure.preemption_order(seqs, "last-admitted")
    assert [v.seq for v in last] == seqs[::-1]
    low = kv.pressure.preemption_order(np.array(seqs), "lowest-priority")
    assert [v.seq for v in low] == [seqs[1], seqs[0], seqs[2]]
    with pytest.raises(UsageError, match="fewest-computed, last-admitted"):
        kv.pressure.preemption_order(seqs, "nearest")  # type: ignore[arg-type]


# --- making room ----------------------------------------------------------------------------------


@pytest.mark.scenario("FE-5", "FE-B14")
def test_collecting_frees_what_is_cached_and_no_more() -> None:
    kv = manager(8)
    assert kv.evict_until(8) == 0
    cached(kv, range(12))
    kv.allocate([9] * 4)
    assert (kv.evict_until(4), kv.evict_until(5)) == (0, 1)
    assert kv.lookup(list(range(13))).tokens == 8
    assert kv.evict_until(2**32 - 1) == 2
    assert kv.counts() == (7, 0, 1, 8)
    assert kv.stats.counters()["evictions"] == 3


def test_a_pool_may_be_neither_empty_nor_all_reserve() -> None:
    kv = room(8, reserve=3)
    for blocks in (0, 3):
        with pytest.raises(UsageError, match="must be"):
            kv.resize(blocks)
    assert kv.counts().total == 8


@pytest.mark.scenario("VT13", "ST13")
def test_asleep_nobody_comes_in() -> None:
    kv = manager(8)
    seq = kv.allocate([]).seq
    with pytest.raises(UsageError, match="1 sequences, 0 blocks in use"):
        kv.sleep()
    kv.release(seq)
    cached(kv, range(8))
    kv.sleep()
    assert kv.counts() == (8, 0, 0, 8)
    for call in (lambda: kv.allocate([1]), lambda: kv.blocks.take(out=np.zeros(1, np.int32))):
        with pytest.raises(UsageError, match="wake it first"):
            call()
    kv.set_weight_version("new")
    kv.resize(4)
    kv.wake()
    assert kv.allocate(list(range(9))).cached_tokens == 0


# --- new weights ----------------------------------------------------------------------------------


@pytest.mark.scenario("V29")
@pytest.mark.parametrize("change", ["new", "back and forth", "clear"])
def test_nothing_of_the_old_weights_is_found_again(change: str) -> None:
    kv = manager(32, hash="xxh3-128")
    prompt = list(range(13))
    cached(kv, prompt)
    keys = kv.blocks.hash_blocks(prompt)
    preempted = kv.allocate(prompt).seq
    kv.commit(preempted, 13)
    request = kv.preempt(preempted)
    runs = kv.allocate([7] * 6).seq
    leased = kv.allocate([8] * 8).seq
    kv.commit(leased, 8)
    lease = kv.pins.lease(leased, 8)
    kv.release(leased, fence=3)
    loading = kv.allocate([9] * 9, num_external_tokens=8)
    assert loading.load is not None
    if change == "clear":
        kv.reset_prefix_cache()
    else:
        kv.set_weight_version("new")
    if change == "back and forth":
        kv.set_weight_version("")
    assert (kv.blocks.hash_blocks(prompt) == keys).all() == (change != "new")
    # What ran computes on, and leaves nothing; nor does what was under way.
    kv.commit(runs, 6)
    kv.append(runs, [7] * 3)
    kv.commit(runs, 9)
    fork = kv.fork(runs)
    kv.loaded(loading.load, 2)
    kv.done(lease)
    kv.step(passed=3, release=[runs, fork, loading.seq])
    assert kv.counts() == (32, 0, 0, 32)
    for text in (prompt, [7] * 9, [8] * 9, [9] * 9):
        assert kv.lookup(text).tokens == 0
    # One that was preempted before comes back as a new one, and is found under the new weights.
    grant = kv.allocate(request)
    assert grant.cached_tokens == 0
    kv.commit(grant.seq, 13)
    assert kv.lookup(prompt).tokens == 12
    assert kv.stats.counters()["collisions"] == 0
    kv.check_integrity()
