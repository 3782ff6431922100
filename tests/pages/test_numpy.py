"""The NumPy backend: bitwise round trips, order of copies, tokens, fills, checksums, refusals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from kvframe import UsageError
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape

from .helpers import BLOCKS, ORDERS, SHAPES, pool, spell

PAIRS = list(product(ORDERS, ORDERS))


@pytest.mark.scenario("S28")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_round_trips_of_every_pair_of_layouts(shape: PageShape) -> None:
    """There into poisoned pages with every partial tail, and back: the same bytes, no other."""
    tails = [0, 1, 3, 4]
    src, dst = [5, 0, 3, 2], [1, 4, 0, 2]
    for one, other in PAIRS:
        source, target, back = (pool(o, shape, seed) for seed, o in enumerate((one, other, one)))
        target.poison(range(BLOCKS))
        source.copy_to(target, src, dst, tails)
        expected = np.full_like(spell(target), 0xFF)
        for a, b, tokens in zip(src, dst, tails, strict=True):
            expected[b, :, :, :tokens] = spell(source)[a, :, :, :tokens]
        assert np.array_equal(spell(target), expected), (one, other)
        back.poison(range(BLOCKS))
        target.copy_to(back, dst, src, tails)
        for a, tokens in zip(src, tails, strict=True):
            assert np.array_equal(spell(back)[a, :, :, :tokens], spell(source)[a, :, :, :tokens])
            assert (spell(back)[a, :, :, tokens:] == 0xFF).all()


@pytest.mark.parametrize("order", ORDERS)
def test_copies_take_effect_one_after_the_other(order: str) -> None:
    shape = SHAPES["gqa-bf16"]
    draw = np.random.default_rng(7)
    for _ in range(20):
        p = pool(order, shape, 3)
        n = int(draw.integers(1, 8))
        src, dst = draw.integers(0, BLOCKS, (2, n))
        tokens = draw.integers(0, 5, n)
        expected = spell(p).copy()
        for a, b, t in zip(src, dst, tokens, strict=True):
            expected[b, :, :, :t] = expected[a, :, :, :t]
        p.copy(src, dst, tokens)
        assert np.array_equal(spell(p), expected)


@pytest.mark.parametrize("order", ORDERS)
def test_tokens_written_by_slots_are_read_in_order(order: str) -> None:
    shape = SHAPES["gqa-bf16"]
    p = pool(order, shape, 1)
    before = spell(p).copy()
    draw = np.random.default_rng(2)
    table = [4, 1, 5]
    keys, values = draw.integers(0, 2**16, (2, 10, 2, 8), np.uint16)
    slots = np.array([table[t // 4] * 4 + t % 4 for t in range(10)], np.int64)
    slots[3] = -1
    p.write(1, [keys, values], slots)
    for start, end in ((0, 10), (5, 9), (8, 8)):
        got = p.read(1, table, end, start=start)
        for part, (found, wanted) in enumerate(zip(got, (keys, values), strict=True)):
            expected = wanted.view(np.uint8).copy()
            expected[3] = before[4, 1, part, 3]
            assert np.array_equal(found, expected[start:end])
    after = spell(p)
    untouched = np.ones(after.shape, bool)
    for t, slot in enumerate(slots):
        if t != 3:
            untouched[slot // 4, 1, :, slot % 4] = False
    assert np.array_equal(after[untouched], before[untouched])


def test_rows_of_any_stride_are_written() -> None:
    p = pool(LAYER_FIRST, SHAPES["gqa-bf16"], 1)
    fused = np.random.default_rng(2).integers(0, 2**16, (3, 6, 8), np.uint16)  # q, k, v of a layer
    p.write(0, [fused[:, 2:4], fused[:, 4:]], [0, 9, 2])
    keys, values = p.read(0, [0, 2], 6)
    assert np.array_equal(keys[[0, 5, 2]].view(np.uint16), fused[:, 2:4])
    assert np.array_equal(values[[0, 5, 2]].view(np.uint16), fused[:, 4:])


@pytest.mark.parametrize("order", ORDERS)
def test_fills_touch_their_pages_alone(order: str) -> None:
    p = pool(order, SHAPES["mla-fp8"], 1)
    expected = spell(p).copy()
    p.zero([1, 3])
    p.poison([5])
    expected[[1, 3]], expected[5] = 0, 0xFF
    assert np.array_equal(spell(p), expected)


@pytest.mark.scenario("T20")
def test_checksums_do_not_depend_on_the_layout_and_name_a_flipped_byte() -> None:
    shape = SHAPES["gqa-fp8"]
    source = pool(LAYER_FIRST, shape, 1)
    sums = source.checksum(range(BLOCKS))
    assert len(set(sums.tolist())) == BLOCKS
    for order in ORDERS:
        p = pool(order, shape, 2)
        p.put(range(BLOCKS), source.get(range(BLOCKS)))
        assert np.array_equal(p.checksum([3, 0]), sums[[3, 0]])
        assert not p.verify(range(BLOCKS), sums).size
        (keys,) = p.read(2, [4], 1)[:1]
        keys[0, 1, 5] ^= 1
        p.write(2, [keys, p.read(2, [4], 1)[1]], [16])
        assert p.verify(range(BLOCKS), sums).tolist() == [4]


def test_poison_is_not_a_number() -> None:
    shape = PageShape(1, 2, 4, 2, 16)
    for dtype in (np.float16, np.float32, np.float64):
        p = NumpyPool(Layout.of(LAYER_FIRST, shape, 2), dtype=dtype)
        p.poison([1])
        keys, values = p.read(0, [1], 4)
        assert keys.dtype == dtype
        assert np.isnan(keys).all()
        assert np.isnan(values).all()


KV = np.zeros((2, 2, 8), np.uint16)
NONE: Any = None
REFUSED: list[tuple[Callable[[NumpyPool], object], str]] = [
    (lambda p: p.copy([6], [0]), "source page 6: must be between 0 and 5"),
    (lambda p: p.copy([0], [-1]), "destination page -1"),
    (lambda p: p.copy([0], [1, 2]), "1 source pages, but 2 destination pages"),
    (lambda p: p.copy([0], [1], [5]), "tokens of a copy 5: must be between 0 and 4"),
    (lambda p: p.copy([0], [1], [1, 2]), "2 numbers of tokens"),
    (lambda p: p.copy([0.5], [1]), "source page ids are float64"),  # type: ignore[list-item]
    (lambda p: p.zero([9]), "page 9"),
    (lambda p: p.write(5, [KV, KV], [0, 1]), "layer 5: must be between 0 and 2"),
    (lambda p: p.write(0, [KV, KV], [0, 24]), "slot 24: must be between -1 and 23"),
    (lambda p: p.write(0, [KV, KV], [0, -2]), "slot -2"),
    (lambda p: p.write(0, [KV], [0, 1]), "1 arrays of KV: the pages have 2 parts"),
    (lambda p: p.write(0, [KV, KV], [0]), r"must be \[1\]\[2\] rows of 16 bytes"),
    (lambda p: p.write(0, [KV, KV[..., :1]], [0, 1]), "rows of 16 bytes"),
    (lambda p: p.write(0, [KV, KV.astype(np.uint8)], [0, 1]), "1-byte values"),
    (lambda p: p.write(0, [KV, KV[..., ::-1]], [0, 1]), "rows have stride -2"),
    (lambda p: p.read(3, [0], 1), "layer 3"),
    (lambda p: p.read(0, [0], 5), "token 4 is past the block table: 1 blocks hold 4"),
    (lambda p: p.read(0, [-1, 0], 5), "block table entry -1"),
    (lambda p: p.read(0, [0], 1, start=2), "tokens 2 to 1"),
    (lambda p: p.put([0], np.zeros((1, 5), np.uint8)), r"must be uint8 \(1, 768\)"),
    (lambda p: p.verify([0], np.zeros(2, np.uint64)), r"checksums of shape \(2,\)"),
    (lambda p: p.put([1, 1], p.get([0, 2])), "destination page 1 is named 2 times"),
    (lambda p: p.copy_to(pool(LAYER_FIRST, SHAPES["mla-fp8"], 0), [0], [0]), "pages differ"),
    (lambda p: p.copy_to(NONE, [0], [0]), "other = None: must be a NumpyPool"),
    (lambda p: p.put([0], NONE), r"pages are None: must be uint8 \(1, 768\)"),
    (lambda p: p.write(0, NONE, [0]), "kv = None: must be an array a part"),
    (lambda p: p.write(NONE, [KV, KV], [0, 1]), "layer = None: must be an integer"),
    (lambda p: p.read(1.0, [0], 4), "layer = 1.0: must be an integer"),  # type: ignore[arg-type]
    (lambda p: p.read(0, [0], NONE), "length = None: must be an integer"),
    (lambda p: p.read(0, [0], 4, start=NONE), "start = None: must be an integer"),
    (lambda p: NumpyPool(NONE), "layout = None: must be a Layout"),
    (lambda p: NumpyPool(p.layout, 5), "buffer = 5: a bytes-like object is required"),
    (lambda p: NumpyPool(p.layout, dtype="f99"), "dtype = 'f99'"),
    (lambda p: Layout.of(NONE, p.layout.shape, 6), "order None: must name each"),
    (lambda p: Layout.of(LAYER_FIRST, p.layout.shape, NONE), "blocks = None: must be an integer"),
    (lambda p: Layout.of("BLPTH", p.layout.shape, 6, page_bytes=1e4), "page_bytes = 10000.0: must"),  # type: ignore[arg-type]
]


@pytest.mark.scenario("FE-12")
@pytest.mark.parametrize(("call", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_what_is_refused_is_told_and_changes_nothing(
    call: Callable[[NumpyPool], object], told: str
) -> None:
    p = pool(LAYER_FIRST, SHAPES["gqa-bf16"], 1)
    before = spell(p).copy()
    with pytest.raises(UsageError, match=told):
        call(p)
    assert np.array_equal(spell(p), before)


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_to_do_is_done(order: str) -> None:
    p = pool(order, SHAPES["gqa-bf16"], 1)
    before = spell(p).copy()
    p.copy([], [])
    p.zero([])
    p.write(0, [KV[:0], KV[:0]], [])
    assert [part.shape for part in p.read(0, [], 0)] == [(0, 2, 16)] * 2
    assert p.get([]).shape == (0, 768)
    p.put([], p.get([]))
    assert p.checksum([]).shape == (0,)
    assert np.array_equal(spell(p), before)
