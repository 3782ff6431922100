"""End to end: a manager decides, pools move the bytes, and every sequence reads what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import CacheConfig, CapacityError, Config, GroupConfig, KVCacheManager, Plan
from kvframe.pages import (
    BLOCK_FIRST,
    LAYER_FIRST,
    PAGE_FIRST,
    Layout,
    NumpyPool,
    PagePool,
    PageShape,
    Settled,
    run_plan,
)

LAYERS, HEADS, DIM, SIZE = 2, 2, 4, 4
SHAPE = PageShape(LAYERS, 2, SIZE, HEADS, DIM * 4)
Rows = npt.NDArray[np.float32]


def new(blocks: int, order: str = LAYER_FIRST, **cache: Any) -> tuple[KVCacheManager, NumpyPool]:
    kv = KVCacheManager(Config(cache=CacheConfig(block_size=SIZE, capacity=blocks, **cache)))
    pool = NumpyPool(Layout.of(order, SHAPE, blocks), dtype=np.float32)
    pool.poison(range(blocks))
    return kv, pool


def rows(values: Sequence[float]) -> list[Rows]:
    """Keys that all are a token's value, and values of 0.5 more."""
    keys = np.repeat(np.array(values, np.float32), HEADS * DIM).reshape(-1, HEADS, DIM)
    return [keys, keys + np.float32(0.5)]


def write(
    kv: KVCacheManager, pool: PagePool, seq: int, start: int, values: Sequence[float]
) -> None:
    slots = np.empty(len(values), np.int64)
    kv.slot_mapping([seq], [start], [len(values)], slots)
    for layer in range(LAYERS):
        pool.write(layer, rows([v + 1000 * layer for v in values]), slots)
    kv.commit(seq, start + len(values))
    kv.check_integrity()


def reads(kv: KVCacheManager, pool: PagePool, seq: int, values: Sequence[float]) -> None:
    table, length = kv.block_table(seq), kv.lengths(seq).committed
    assert length == len(values)
    for layer in range(LAYERS):
        for got, wanted in zip(
            pool.read(layer, table, length), rows([v + 1000 * layer for v in values]), strict=True
        ):
            assert np.array_equal(got, wanted)


def settle(kv: KVCacheManager, pool: PagePool | Sequence[PagePool]) -> Settled:
    settled = run_plan(kv.take_plan(), pool)
    kv.step(done=settled.done, failed=settled.failed)
    kv.check_integrity()
    return settled


@pytest.mark.scenario("FE-8")
@pytest.mark.parametrize("order", [LAYER_FIRST, BLOCK_FIRST, PAGE_FIRST])
def test_pages_hold_what_was_written_and_zeros(order: str) -> None:
    """Ferrum's own numbers, in a fresh block and in one that somebody used before."""
    kv, pool = new(4, order)
    for _ in range(2):
        grant = kv.admit(np.arange(6), read_cache=False)
        table = kv.block_table(grant.seq)
        pool.zero(table)
        keys = np.array([[p * 100 + i for i in range(8)] for p in range(6)], np.float32)
        keys = keys.reshape(6, HEADS, DIM)
        slots = np.empty(6, np.int64)
        kv.slot_mapping([grant.seq], [0], [6], slots)
        pool.write(0, [keys, keys + 50], slots)
        found = [part.reshape(-1) for part in pool.read(0, table, 6)]
        assert [found[0][i] for i in (0, 7, 32)] == [0, 7, 400]
        assert found[1][40] == 550
        assert all(not part.any() for part in pool.read(1, table, 6))
        kv.commit(grant.seq, 6)
        kv.release(grant.seq)
        pool.poison(table)
    assert kv.counts().free + kv.counts().cached == 4


@pytest.mark.scenario("FE-9", "FE-B15")
def test_a_lifecycle_without_contamination_or_leaks() -> None:
    kv, pool = new(8)
    one, other = kv.admit([1] * 6).seq, kv.admit([2] * 5).seq
    write(kv, pool, one, 0, [10, 11, 12, 13, 14, 15])
    write(kv, pool, other, 0, [20, 21, 22, 23, 24])
    reads(kv, pool, one, [10, 11, 12, 13, 14, 15])
    reads(kv, pool, other, [20, 21, 22, 23, 24])
    kv.append(one, [3, 3, 3, 3])
    settle(kv, pool)
    write(kv, pool, one, 6, [16, 17, 18, 19])
    reads(kv, pool, one, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    reads(kv, pool, other, [20, 21, 22, 23, 24])
    kv.release(one)
    kv.release(other)

    kv, pool = new(4, prefix_caching=False)
    first, second = kv.admit([1] * 8).seq, kv.admit([2] * 8).seq
    write(kv, pool, first, 0, [42] * 8)
    write(kv, pool, second, 0, [7] * 8)
    with pytest.raises(CapacityError):
        kv.admit([3] * 8)
    kv.release(first)
    third = kv.admit([3] * 8).seq
    write(kv, pool, third, 0, [99] * 8)
    reads(kv, pool, third, [99] * 8)
    reads(kv, pool, second, [7] * 8)
    for _ in range(10):
        kv.release(third)
        third = kv.admit([3] * 8).seq
    assert kv.counts().free == 0


@pytest.mark.scenario("FE-B6", "FE-B7", "FE-B8", "I4", "T35")
@pytest.mark.parametrize("order", [LAYER_FIRST, BLOCK_FIRST])
def test_a_copy_on_write_copies_and_no_sharer_sees_the_others_write(order: str) -> None:
    kv, pool = new(8, order)
    owner = kv.admit([1, 2, 3, 4, 5, 6]).seq
    write(kv, pool, owner, 0, [0, 1, 2, 3, 4, 5])
    child = kv.fork(owner)
    kv.append(child, [70])
    kv.append(owner, [60])
    settled = settle(kv, pool)
    assert len(settled.done) == 1
    assert kv.stats()["copies"] == 1
    assert kv.counts().referenced == 3  # one shared, one tail each: nothing leaked
    write(kv, pool, child, 6, [70])
    write(kv, pool, owner, 6, [60])
    reads(kv, pool, owner, [0, 1, 2, 3, 4, 5, 60])
    reads(kv, pool, child, [0, 1, 2, 3, 4, 5, 70])
    kv.append(child, [71])
    assert settle(kv, pool) == ([], [], None)  # its own tail by now
    kv.release(owner)
    kv.release(child)
    kv.check_integrity()


@pytest.mark.scenario("FE-B18")
def test_reads_end_at_the_length_and_pages_are_scrubbed_on_demand() -> None:
    kv, pool = new(2, prefix_caching=False)
    tenant = kv.admit([1] * 8).seq
    write(kv, pool, tenant, 0, [42] * 8)
    kv.release(tenant)
    other = kv.admit([2] * 5).seq
    table = kv.block_table(other)
    pool.poison(table)
    write(kv, pool, other, 0, [7] * 5)
    reads(kv, pool, other, [7] * 5)
    assert all(len(part) == 5 for part in pool.read(0, table, 5))
    past = pool.read(0, table, 8, start=5)
    assert all(np.isnan(part).all() for part in past)  # not the tenant's 42


class Broken(NumpyPool):
    """A device that fails in the middle of a copy."""

    def copy(self, src: Any, dst: Any, tokens: Any = None) -> None:
        self.poison(dst)
        raise RuntimeError("illegal address")


def test_a_plan_that_fails_is_answered_and_the_writers_are_cut() -> None:
    kv, _ = new(8)
    pool = Broken(Layout.of(LAYER_FIRST, SHAPE, 8), dtype=np.float32)
    owner = kv.admit([1, 2, 3, 4, 5, 6]).seq
    write(kv, pool, owner, 0, [0, 1, 2, 3, 4, 5])
    child = kv.fork(owner)
    kv.append(child, [70])
    plan = kv.take_plan()
    settled = run_plan(plan, pool)
    assert plan is not None
    assert (settled.done, settled.failed) == ([], [plan.ticket])
    assert str(settled.why) == "illegal address"
    assert kv.step(failed=settled.failed).rewound == [child]
    kv.check_integrity()
    reads(kv, pool, owner, [0, 1, 2, 3, 4, 5])


def test_groups_with_pools_of_their_own_each_get_their_copies() -> None:
    groups = [
        GroupConfig(name="all", kind="full"),
        GroupConfig(name="w", kind="sliding_window", window=8),
    ]
    kv = KVCacheManager(Config(cache=CacheConfig(block_size=SIZE, capacity=16), groups=groups))
    pools = [NumpyPool(Layout.of(o, SHAPE, 16)) for o in (LAYER_FIRST, BLOCK_FIRST)]
    seq = kv.admit([1, 2, 3, 4, 5, 6]).seq
    for byte, pool, group in zip((3, 5), pools, (0, 1), strict=True):
        page = np.full((1, SHAPE.page_bytes), byte, np.uint8)
        pool.put([kv.block_table(seq, group)[1]], page)
    kv.commit(seq, 6)
    child = kv.fork(seq)
    kv.append(child, [7])
    assert settle(kv, pools).why is None
    for byte, pool, group in zip((3, 5), pools, (0, 1), strict=True):
        (keys, values) = pool.read(1, kv.block_table(child, group), 6, start=4)
        assert (keys == byte).all()
        assert (values == byte).all()


def test_a_plan_for_a_group_without_a_pool_fails() -> None:
    pool = NumpyPool(Layout.of(LAYER_FIRST, SHAPE, 4))
    plan = Plan(9, np.array([[0, 1, 4, 1]], np.int32))
    settled = run_plan(plan, [pool])
    assert settled.failed == [9]
    assert "layer group 1: pools are given for 1" in str(settled.why)
    assert run_plan(plan, [pool, pool]).done == [9]
    assert run_plan(None, pool) == ([], [], None)
