"""ferrum's paged manager: its tests (FE) and what it got wrong in control (FE-B)."""

from __future__ import annotations

import time

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    Config,
    KVCacheManager,
)

from .helpers import cached, found, manager, words

# --- FE: its tests --------------------------------------------------------------------------------


@pytest.mark.scenario("FE-1", "FE-2", "FE-3", "FE-5")
def test_a_manager_of_defaults_takes_grows_and_gives_back() -> None:
    assert KVCacheManager().counts().free == Config().resolve().capacity_blocks
    kv = manager(100, 16)
    assert kv.evict_until(100) == 0
    seq = kv.allocate([5] * 64).seq
    assert (kv.lengths(seq).slots, kv.block_table(seq).size) == (64, 4)
    kv.append(seq, [6] * 64)
    assert (kv.lengths(seq).slots, kv.block_table(seq).size) == (128, 8)
    kv.release(seq)
    assert kv.counts() == (100, 0, 0, 100)


@pytest.mark.scenario("FE-11", "FE-B22")
def test_stored_prefixes_are_found_in_part_and_go_by_recency() -> None:
    kv = manager(2, 1)
    assert found(kv, [1]) == 0
    cached(kv, [1])
    cached(kv, [2])
    assert kv.allocate([1, 8], until=1).cached_tokens == 1
    cached(kv, [3])
    assert [found(kv, [n]) for n in (1, 2, 3)] == [1, 0, 1]
    longer = manager(8, 1)
    cached(longer, [1, 2, 3])
    assert longer.lookup([1, 2, 3, 4]).tokens == 3
    longer.allocate([9])
    stats = longer.stats.counters()
    # The first two were misses; a prompt too short to be found is one as well.
    assert (stats["requests"], stats["requests_with_hit"]) == (2, 0)
    longer.allocate([1, 2, 3, 4])
    stats = longer.stats.counters()
    assert (stats["requests"], stats["requests_with_hit"], stats["hit_tokens"]) == (3, 1, 3)


# --- FE-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("FE-B10", "FE-B22", "SA-B5")
def test_a_prefix_that_is_kept_is_owned() -> None:
    kv = manager(10, 16)
    seq = kv.allocate(words(*range(10))).seq
    kv.commit(seq, 160)
    lease = kv.pins.lease(seq, 160)
    kv.release(seq)
    assert kv.counts() == (0, 0, 10, 10)
    with pytest.raises(CapacityError):
        kv.allocate(words(20))
    assert found(kv, words(*range(10))) == 160
    kv.done(lease)
    kv.allocate(words(20))
    assert found(kv, words(*range(10))) == 144


@pytest.mark.scenario("FE-B27")
def test_a_handle_is_a_number_that_many_may_hold() -> None:
    kv = manager(8, 16)
    seq = kv.allocate([5] * 16).seq
    child = kv.fork(seq)
    for holder in (seq, seq + 0, int(f"{seq}")):
        kv.append(holder, [6] * 16)
    kv.step(append=np.array([seq], np.uint64), counts=[16], tokens=[7] * 16)
    assert (kv.block_table(seq).size, kv.block_table(child).size) == (5, 1)


@pytest.mark.scenario("FE-B29", "V35")
def test_many_blocks_cost_no_more_each_than_few() -> None:
    """One call, one lock, one pass: a thousand times the blocks is no reason to slow down."""

    def each(blocks: int, pool: int) -> float:
        kv = manager(pool, 1)
        best = float("inf")
        out = np.zeros(blocks, np.int32)
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(max(1, 4096 // blocks)):
                kv.blocks.take(out=out)
                kv.blocks.free(out)
            best = min(best, time.perf_counter() - start)
        return best / (blocks * max(1, 4096 // blocks))

    few, many, crowded = each(8, 64), each(65536, 65536), each(8, 2**20)
    assert many < 5 * few
    assert crowded < 5 * few
