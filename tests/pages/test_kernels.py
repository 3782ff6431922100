"""The kernels and the host code that launches them, emulated, beside the NumPy backend."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from kvframe import UsageError
from kvframe.pages import (
    BLOCK_FIRST,
    LAYER_FIRST,
    LAYER_FIRST_HND,
    Layout,
    NumpyPool,
    PageShape,
    checks,
)
from kvframe.pages.device import DevicePool, over_host, plane_addresses
from kvframe.pages.launch import FEW

from .emulated import Emulated
from .helpers import BLOCKS, ORDERS, SHAPES, spell

SIZES = {**SHAPES, "odd": PageShape(2, 2, 4, 3, 6), "wide": PageShape(2, 2, 16, 8, 64)}


def device(order: str, shape: PageShape, seed: int, gpu: Emulated | None = None) -> DevicePool:
    layout = Layout.of(order, shape, BLOCKS)
    spare = np.empty(layout.nbytes + 64, np.uint8)
    data = spare[-spare.ctypes.data % 64 :][: layout.nbytes]
    data[:] = np.random.default_rng(seed).integers(0, 256, layout.nbytes, np.uint8)
    return over_host(gpu or Emulated(), NumpyPool(layout, data), data)


def reference(pool: DevicePool) -> NumpyPool:
    """The same memory, through NumPy."""
    assert isinstance(pool.owner, NumpyPool)
    return pool.owner


@pytest.mark.parametrize("shape", SIZES.values(), ids=SIZES)
def test_moves_between_all_layouts_are_those_of_numpy(shape: PageShape) -> None:
    src, dst, tails = [5, 0, 3, 2], [1, 4, 0, 2], [0, 1, shape.block_size - 1, shape.block_size]
    for one, other in product(ORDERS, ORDERS):
        source, target, wanted = (device(o, shape, i) for i, o in enumerate((one, other, other)))
        for pool in (target, wanted):
            reference(pool).poison(range(BLOCKS))
        source.copy_to(target, src, dst, tails)
        reference(source).copy_to(reference(wanted), src, dst, tails)
        assert np.array_equal(spell(reference(target)), spell(reference(wanted))), (one, other)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["gqa-bf16", "wide", "odd"])
def test_chains_of_copies_keep_their_order_in_one_launch(order: str, name: str) -> None:
    draw = np.random.default_rng(5)
    shape = SIZES[name]
    for _ in range(12):
        n = int(draw.integers(1, 9))
        gpu = Emulated()
        pool, wanted = device(order, shape, 1, gpu), device(order, shape, 1)
        src, dst = draw.integers(0, BLOCKS, (2, n))
        tokens = draw.integers(0, shape.block_size + 1, n)
        pool.copy(src, dst, tokens)
        reference(wanted).copy(src, dst, tokens)
        assert np.array_equal(spell(reference(pool)), spell(reference(wanted)))
        assert len(gpu.launches) == 1


@pytest.mark.parametrize("order", ORDERS)
def test_more_copies_than_arguments_hold_are_uploaded(order: str) -> None:
    draw = np.random.default_rng(6)
    pool, wanted = device(order, SHAPES["gqa-fp8"], 1), device(order, SHAPES["gqa-fp8"], 1)
    src, dst = draw.integers(0, 3, 2 * FEW), draw.integers(3, BLOCKS, 2 * FEW)
    pool.copy(src, dst)
    reference(wanted).copy(src, dst)
    pool.poison(np.arange(4 * FEW) % 2)
    reference(wanted).poison([0, 1])
    assert np.array_equal(spell(reference(pool)), spell(reference(wanted)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SIZES.values(), ids=SIZES)
def test_tokens_and_fills_are_those_of_numpy(order: str, shape: PageShape) -> None:
    pool, wanted = device(order, shape, 1), device(order, shape, 1)
    draw = np.random.default_rng(2)
    table, count = [4, 1, 5], 2 * shape.block_size + 1
    fused = draw.integers(0, 256, (count, 3 * shape.heads, shape.row_bytes), np.uint8)
    kv = [fused[:, i * shape.heads :][:, : shape.heads] for i in range(shape.parts)]
    slots = np.array(
        [
            table[t // shape.block_size] * shape.block_size + t % shape.block_size
            for t in range(count)
        ]
    )
    slots[2] = -1
    for p in (pool, reference(wanted)):
        p.write(1, kv, slots)
        p.zero([3])
        p.poison([0, 2])
    assert np.array_equal(spell(reference(pool)), spell(reference(wanted)))
    for start in (0, 3):
        got = pool.read(1, table, count, start=start)
        expected = reference(wanted).read(1, table, count, start=start)
        for one, other in zip(got, expected, strict=True):
            assert np.array_equal(one, other)
    assert np.array_equal(pool.get([2, 4]), reference(wanted).get([2, 4]))
    pool.put([0, 1], pool.get([4, 5]))
    assert np.array_equal(pool.checksum([0, 1]), reference(wanted).checksum([4, 5]))
    assert pool.verify([0, 1], pool.checksum([0, 5])).tolist() == []


def test_layers_are_moved_alone_and_by_few_warps() -> None:
    gpu = Emulated()
    source, target = (
        device(o, SHAPES["gqa-bf16"], i, gpu) for i, o in enumerate(["LPBTH", "BLPTH"])
    )
    before = spell(reference(target)).copy()
    source.copy_to(target, [1, 2], [0, 5], layers=(1, 2), warps=2)
    before[[0, 5], 1] = spell(reference(source))[[1, 2], 1]
    assert np.array_equal(spell(reference(target)), before)
    assert [(name, grid) for name, _, grid in gpu.launches] == [("move_beside", 2)]


@pytest.mark.parametrize(
    ("shape", "word"),
    [
        (PageShape(1, 2, 4, 2, 64), 16),
        (PageShape(1, 2, 4, 2, 24), 8),
        (PageShape(1, 2, 4, 2, 12), 4),
        (PageShape(1, 2, 4, 2, 6), 2),
        (PageShape(1, 2, 4, 2, 5), 1),
    ],
)
def test_words_are_as_wide_as_rows_allow(shape: PageShape, word: int) -> None:
    gpu = Emulated()
    device(LAYER_FIRST, shape, 1, gpu).copy([0], [1])
    device(LAYER_FIRST_HND, shape, 1, gpu).zero([0])
    assert [found for _, found, _ in gpu.launches] == [word, word]


def test_an_unaligned_pool_is_moved_by_narrower_words() -> None:
    layout, gpu = Layout.of(BLOCK_FIRST, PageShape(1, 2, 4, 2, 64), 3), Emulated()
    spare = np.random.default_rng(0).integers(0, 256, layout.nbytes + 80, np.uint8)
    data = spare[-spare.ctypes.data % 16 + 4 :][: layout.nbytes]
    pool = DevicePool(gpu, layout, plane_addresses(layout, data.ctypes.data), data)
    pool.copy([0], [2])
    assert gpu.launches == [("move_pages", 4, 2)]
    assert np.array_equal(*data.reshape(3, -1)[[0, 2]])


def test_slots_out_of_range_on_the_device_are_left_out() -> None:
    class Elsewhere(np.ndarray[Any, Any]):
        """Not to be looked at by the host."""

    pool = device(LAYER_FIRST, SHAPES["gqa-fp8"], 1)
    before = spell(reference(pool)).copy()
    rows = np.zeros((3, 2, 8), np.uint8)
    gpu = pool.gpu
    assert isinstance(gpu, Emulated)
    slots = Holder(np.array([-7, 24, 1], np.int64))
    gpu.describe = slots.describe(gpu.describe)  # type: ignore[method-assign]
    pool.write(0, [rows, rows], slots)
    before[0, 0, :, 1] = 0
    assert np.array_equal(spell(reference(pool)), before)
    with pytest.raises(UsageError, match="must be a contiguous row of int64"):
        pool.write(0, [rows, rows], Holder(np.zeros(3, np.int32)))


class Holder:
    """Slots that the host cannot read."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def describe(self, other: Any) -> Any:
        return lambda array: other(getattr(array, "array", array))


def test_what_is_refused_has_launched_nothing() -> None:
    gpu = Emulated()
    pool = device(LAYER_FIRST, SHAPES["gqa-bf16"], 1, gpu)
    rows = np.zeros((2, 2, 16), np.uint8)
    for call, told in (
        (lambda: pool.copy([6], [0]), "source page 6"),
        (lambda: pool.copy_to(pool, [0], [1], layers=(1, 1)), "layers 1 to 1"),
        (lambda: pool.copy_to(pool, [0], [1], warps=0), "warps = 0"),
        (lambda: pool.write(3, [rows, rows], [0, 1]), "layer 3"),
        (lambda: pool.write(0, [rows, rows], [0, 24]), "slot 24"),
        (lambda: pool.write(0, [rows, rows[:1]], [0, 1]), "KV of shape"),
        (lambda: pool.read(0, [0], 5), "past the block table"),
        (lambda: pool.put([0], np.zeros((1, 3), np.uint8)), "must be uint8"),
    ):
        with pytest.raises(UsageError, match=told):
            call()
    assert gpu.launches == []


def test_neighbours_travel_together() -> None:
    runs = checks.neighbours(np.array([2, 3, 4, 9, 11, 12]))
    assert [run.tolist() for run in runs] == [[0, 3, 4], [2, 9, 11], [3, 1, 2]]
    assert all(not len(each) for each in checks.neighbours(np.array([], np.int32)))


@pytest.mark.parametrize("count", [1, checks.FEW, checks.FEW + 1, 1000])
def test_few_ids_and_many_are_checked_alike(count: int) -> None:
    ids = np.random.default_rng(count).permutation(count)
    assert np.array_equal(checks.pages(ids, count), ids)
    with pytest.raises(UsageError, match=f"page {count - 1}: must be between 0 and {count - 2}"):
        checks.pages(ids, count - 1)
    with pytest.raises(UsageError, match="page -1: must be between"):
        checks.pages(np.append(ids[1:], -1), count)


@pytest.mark.parametrize("count", [1, 5, 1000])
@pytest.mark.parametrize("make", [list, np.int32, np.int64, np.uint64])
def test_copies_are_checked_alike_whatever_holds_them(count: int, make: Any) -> None:
    shape = SHAPES["gqa-fp8"]
    pool, larger = (Layout.of(ORDERS[0], shape, n) for n in (count, 2 * count))
    ids = np.random.default_rng(count).permutation(count)
    given, wider = (make(each) if make is list else each.astype(make) for each in (ids, ids + 1))
    whole = [[i, i, shape.block_size] for i in ids.tolist()]
    assert checks.copies(given, given, None, pool, pool).tolist() == whole
    some = checks.copies(given, wider, given * 0 if make is not list else [0] * count, pool, larger)
    assert some.tolist() == [[i, i + 1, 0] for i in ids.tolist()]
    told = f"page {count}: must be between 0 and {count - 1}"
    for src, dst, which in ((wider, given, "source"), (given, wider, "destination")):
        with pytest.raises(UsageError, match=f"{which} {told}"):
            checks.copies(src, dst, None, pool, pool)
    twice = np.append(ids[1:], [ids[0]] * 2).tolist()
    again = twice if make is list else np.array(twice).astype(make)
    with pytest.raises(UsageError, match=f"host page {ids[0]} is named 2 times"):
        checks.copies(again, again, None, pool, pool, once=True, names=("page", "host page"))
    assert len(checks.copies(again, again, None, pool, pool)) == count + 1
    with pytest.raises(UsageError, match=f"{count + 1} pages, but {count} host pages"):
        checks.copies(again, given, None, pool, pool, names=("page", "host page"))


def test_pools_of_two_gpus_are_refused() -> None:
    one, other = (device(ORDERS[0], SHAPES["gqa-fp8"], 1, Emulated(n)) for n in (0, 1))
    before = spell(reference(other)).copy()
    with pytest.raises(UsageError, match="GPUs 0 and 1: must be of one"):
        one.copy_to(other, [0], [1])
    assert np.array_equal(spell(reference(other)), before)
