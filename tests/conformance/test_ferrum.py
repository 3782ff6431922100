"""ferrum's paged manager: its tests (FE) and what it got wrong in control (FE-B)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    KVCacheManager,
    KVFrameError,
    ModelConfig,
    NeverFitsError,
    UsageError,
)

from .helpers import available, cached, evicted, found, manager, owners, state, words

# --- FE: its tests --------------------------------------------------------------------------------


@pytest.mark.scenario("FE-1", "FE-2", "FE-3", "FE-5")
def test_a_manager_of_defaults_takes_grows_and_gives_back() -> None:
    assert KVCacheManager().counts().free == Config().resolve().capacity_blocks
    kv = manager(100, 16)
    assert kv.collect(100) == 0
    seq = kv.admit([5] * 64).seq
    assert (kv.lengths(seq).slots, kv.block_table(seq).size) == (64, 4)
    kv.append(seq, [6] * 64)
    assert (kv.lengths(seq).slots, kv.block_table(seq).size) == (128, 8)
    kv.release(seq)
    assert kv.counts() == (100, 0, 0, 100)


@pytest.mark.scenario("FE-4", "FE-B15", "FE-B17")
def test_a_third_request_fails_and_leaks_nothing() -> None:
    kv = manager(10, 16)
    held = [kv.admit([n] * 64).seq for n in (1, 2)]
    before = state(kv, held)
    refused = kv.stats()["refused"]
    with pytest.raises(CapacityError):
        kv.admit([3] * 64)
    assert state(kv, held) == before
    assert kv.stats()["refused"] == refused + 1
    assert kv.counts() == (2, 0, 8, 10)
    for seq in held:
        kv.release(seq)
    assert kv.counts() == (10, 0, 0, 10)


@pytest.mark.scenario("FE-6", "FE-B1")
def test_block_0_is_mapped_like_any_other() -> None:
    kv = manager(2, 16)
    seq = kv.admit([5] * 17).seq
    assert kv.block_table(seq).tolist() == [0, 1]
    slots = np.zeros(17, np.int64)
    assert kv.slot_mapping([seq], [0], [17], slots) == 17
    assert slots.tolist() == list(range(17))
    kv.release(seq)
    cached(kv, words(1))
    grant = kv.admit([*words(1), 5])
    assert (grant.cached_tokens, kv.block_table(grant.seq)[0]) == (16, 0)


@pytest.mark.scenario("FE-9")
def test_a_pool_of_four_fills_frees_and_fills_again() -> None:
    kv = manager(4)
    first, second = (kv.admit([n] * 8).seq for n in (41, 42))
    with pytest.raises(CapacityError):
        kv.admit([99] * 8)
    kv.release(first)
    third = kv.admit([99] * 8).seq
    assert not set(kv.block_table(second).tolist()) & set(kv.block_table(third).tolist())
    for seq in (second, third):
        kv.release(seq)
    for turn in range(10):
        seq = kv.admit([turn] * 4).seq
        kv.append(seq, [turn] * 4)
        kv.release(seq)
        assert kv.counts() == (4, 0, 0, 4)


@pytest.mark.scenario("FE-10")
def test_a_failed_growth_leaves_four_blocks_and_one_free() -> None:
    kv = manager(5, 16)
    seq = kv.admit([5] * 64).seq
    with pytest.raises(CapacityError):
        kv.admit([6] * 64)
    with pytest.raises(KVFrameError):
        kv.append(seq, [5] * 48)
    assert (kv.block_table(seq).size, kv.lengths(seq).slots) == (4, 64)
    assert kv.counts() == (1, 0, 4, 5)


@pytest.mark.scenario("FE-11", "FE-B22")
def test_stored_prefixes_are_found_in_part_and_go_by_recency() -> None:
    kv = manager(2, 1)
    assert found(kv, [1]) == 0
    cached(kv, [1])
    cached(kv, [2])
    assert kv.admit([1, 8], until=1).cached_tokens == 1
    cached(kv, [3])
    assert [found(kv, [n]) for n in (1, 2, 3)] == [1, 0, 1]
    longer = manager(8, 1)
    cached(longer, [1, 2, 3])
    assert longer.lookup([1, 2, 3, 4]).tokens == 3
    longer.admit([9])
    stats = longer.stats()
    # The first two were misses; a prompt too short to be found is one as well.
    assert (stats["admissions"], stats["admissions_with_hit"]) == (2, 0)
    longer.admit([1, 2, 3, 4])
    stats = longer.stats()
    assert (stats["admissions"], stats["admissions_with_hit"], stats["hit_tokens"]) == (3, 1, 3)


# --- FE-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("FE-B4", "IL-B7")
def test_the_end_of_one_does_not_free_what_another_has_by_now() -> None:
    kv = manager(2, 16)
    first = kv.admit(words(1, 2)).seq
    kv.preempt(first)
    other = kv.admit(words(3, 4)).seq
    with pytest.raises(KVFrameError):
        kv.release(first)
    assert [owners(kv, block) for block in kv.block_table(other).tolist()] == [1, 1]
    with pytest.raises(CapacityError):
        kv.admit(words(5))


@pytest.mark.scenario("FE-B17", "VT38")
@pytest.mark.parametrize("cached_blocks", range(5))
@pytest.mark.parametrize("held", range(4))
def test_a_request_comes_in_exactly_if_free_and_cached_suffice(
    cached_blocks: int, held: int
) -> None:
    for wanted in range(1, 9):
        kv = manager(8, 4)
        if cached_blocks:
            cached(kv, [7] * (4 * cached_blocks))
        if held:
            kv.admit([8] * (4 * held))
        room = available(kv)
        assert room == 8 - held
        if wanted <= room:
            kv.admit([9] * (4 * wanted))
            assert evicted(kv) == max(0, wanted - (8 - held - cached_blocks))
        else:
            with pytest.raises(CapacityError, match=f"needs {wanted} blocks, but only {room}"):
                kv.admit([9] * (4 * wanted))
            assert evicted(kv) == 0


@pytest.mark.scenario("FE-B18", "I15")
def test_nothing_is_read_past_a_sequence() -> None:
    kv = manager(4, 16)
    seq = kv.admit([5] * 20).seq
    out = np.full(32, -7, np.int64)
    for start, count in ((0, 21), (20, 1), (32, 1), (2**32 - 1, 1), (5, 2**32 - 5)):
        with pytest.raises(UsageError):
            kv.slot_mapping([seq], [start], [count], out)
    assert (out == -7).all()
    assert kv.slot_mapping([seq], [0], [20], out) == 20
    kv.truncate(seq, 18)
    with pytest.raises(UsageError):
        kv.slot_mapping([seq], [0], [20], out)


@pytest.mark.scenario("FE-B19")
def test_there_is_one_total() -> None:
    for null_block in (False, True):
        kv = manager(8, 16, null_block=null_block)
        total = kv.options()["blocks"]
        for use in (lambda kv=kv: kv.admit(words(1, 2)), lambda kv=kv: cached(kv, words(3))):
            use()
            counts = kv.counts()
            assert counts.total == total == 8
            assert counts.free + counts.cached + counts.referenced == total
        assert kv.block_table(kv.admit(words(4)).seq).size == 1


@pytest.mark.scenario("FE-B20")
def test_bytes_are_those_of_the_kv_heads_and_the_dtype() -> None:
    shape: dict[str, Any] = {"layers": 32, "kv_heads": 8, "head_dim": 128}
    sizes: dict[Any, int] = {"float16": 2, "bfloat16": 2, "float32": 4, "fp8": 1}
    for dtype, size in sizes.items():
        model = ModelConfig(**shape, dtype=dtype)
        config = Config(cache=CacheConfig(capacity=4, block_size=16), model=model)
        assert config.resolve().block_bytes == 16 * 2 * 32 * 8 * 128 * size


@pytest.mark.scenario("FE-B21")
def test_ten_hits_in_a_hundred_are_a_tenth() -> None:
    kv = manager(200, 16)
    cached(kv, words(0))
    for n in range(1, 90):
        kv.release(kv.admit([*words(n), 5], write_cache=False).seq)
    for _ in range(10):
        kv.release(kv.admit([*words(0), 5], write_cache=False).seq)
    stats = kv.stats()
    assert stats["admissions_with_hit"] / stats["admissions"] == 0.1
    assert stats["hit_tokens"] / stats["prompt_tokens"] == 160 / (16 + 99 * 17)


@pytest.mark.scenario("FE-B10", "FE-B22", "SA-B5")
def test_a_prefix_that_is_kept_is_owned() -> None:
    kv = manager(10, 16)
    seq = kv.admit(words(*range(10))).seq
    kv.commit(seq, 160)
    lease = kv.lease(seq, 160)
    kv.release(seq)
    assert kv.counts() == (0, 0, 10, 10)
    with pytest.raises(CapacityError):
        kv.admit(words(20))
    assert found(kv, words(*range(10))) == 160
    kv.done(lease)
    kv.admit(words(20))
    assert found(kv, words(*range(10))) == 144


@pytest.mark.scenario("FE-B26")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_list_of_ids_is_freed_whole_or_not_at_all(place: int) -> None:
    kv = manager(8, 16)
    seq = kv.admit(words(1)).seq
    lent = np.zeros(3, np.int32)
    kv.lend(lent)
    wrong = lent.copy()
    wrong[place] = kv.block_table(seq)[0]
    before = state(kv, [seq])
    with pytest.raises(UsageError):
        kv.give_back(wrong)
    assert state(kv, [seq]) == before
    kv.give_back(lent)
    assert kv.counts() == (7, 0, 1, 8)
    kv.check_integrity()


@pytest.mark.scenario("FE-B27")
def test_a_handle_is_a_number_that_many_may_hold() -> None:
    kv = manager(8, 16)
    seq = kv.admit([5] * 16).seq
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
                kv.lend(out)
                kv.give_back(out)
            best = min(best, time.perf_counter() - start)
        return best / (blocks * max(1, 4096 // blocks))

    few, many, crowded = each(8, 64), each(65536, 65536), each(8, 2**20)
    assert many < 5 * few
    assert crowded < 5 * few


@pytest.mark.scenario("FE-B17")
def test_what_the_pool_can_never_hold_is_told_apart_from_what_must_wait() -> None:
    kv = manager(4, 16)
    kv.admit(words(1))
    with pytest.raises(CapacityError):
        kv.admit(words(2, 3, 4, 5))
    with pytest.raises(NeverFitsError):
        kv.admit(words(2, 3, 4, 5, 6))
