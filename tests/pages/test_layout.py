"""Layouts: addresses, names, overlap, padding."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import ConfigError, UsageError
from kvframe.config import ModelConfig
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, NumpyPool, PageShape, Strides

from .helpers import ORDERS, SHAPES, at, spell

SHAPE = PageShape(layers=2, parts=2, block_size=4, heads=3, row_bytes=16)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_bytes_lie_where_the_strides_say(order: str, shape: PageShape) -> None:
    layout = Layout.of(order, shape, 5)
    data = np.random.default_rng(1).integers(0, 256, layout.nbytes, np.uint8)
    pool = NumpyPool(layout, data)
    assert np.array_equal(spell(pool), at(layout, data))
    assert layout.nbytes == 5 * shape.page_bytes
    if shape.parts > 1 and shape.heads > 1:
        assert layout.order == order


@pytest.mark.scenario("FE-B20")
def test_bytes_follow_dtype_and_kv_heads() -> None:
    model = ModelConfig(layers=32, kv_heads=8, head_dim=128, dtype="float16")
    shape = PageShape.of_model(model, 16)
    assert shape == PageShape(32, 2, 16, 8, 256)
    assert shape.page_bytes == 2 * 2**20
    assert PageShape.of_model(model, 16, layers=8).page_bytes == 2**19
    with pytest.raises(ConfigError, match=r"say \[model\]"):
        PageShape.of_model(None, 16)


def test_groups_of_two_sizes_share_padded_pages() -> None:
    small = PageShape(1, 2, 4, 3, 16)
    memory = np.zeros(3 * SHAPE.page_bytes, np.uint8)
    one = NumpyPool(Layout.of(BLOCK_FIRST, SHAPE, 3), memory)
    other = NumpyPool(Layout.of(BLOCK_FIRST, small, 3, page_bytes=SHAPE.page_bytes), memory)
    one.poison([0, 2])
    other.poison([1])
    assert memory.reshape(3, -1).sum(axis=1).tolist() == [
        255 * SHAPE.page_bytes,
        255 * small.page_bytes,
        255 * SHAPE.page_bytes,
    ]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Layout.of("LPBT", SHAPE, 4), "'LPBT': must name each of L, P, B, T, H once"),
        (lambda: Layout.of(LAYER_FIRST, SHAPE, 0), "blocks = 0"),
        (lambda: Layout.of(LAYER_FIRST, SHAPE, 4, page_bytes=9), "only where blocks are outermost"),
        (lambda: Layout.of(BLOCK_FIRST, SHAPE, 4, page_bytes=9), "a page has 768 bytes"),
        (lambda: Layout(SHAPE, 4, Strides(768, 192, 192, 48, 16)), "pages would overlap"),
        (lambda: PageShape(0, 2, 4, 1, 16), "layers = 0"),
        (lambda: PageShape(1, 3, 4, 1, 16), "parts = 3"),
    ],
)
def test_impossible_layouts_are_told(make: object, told: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match="pages would overlap" if "overlap" in told else told):
        make()
