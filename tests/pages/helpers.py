"""Pools of every layout, filled at random, and what a page must hold, computed byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.pages import (
    BLOCK_FIRST,
    BLOCK_FIRST_HND,
    LAYER_FIRST,
    LAYER_FIRST_HND,
    LAYER_FIRST_TOGETHER,
    PAGE_FIRST,
    PARTS_FIRST,
    Layout,
    NumpyPool,
    PageShape,
)

ORDERS = [
    LAYER_FIRST,
    LAYER_FIRST_TOGETHER,
    PARTS_FIRST,
    BLOCK_FIRST,
    PAGE_FIRST,
    LAYER_FIRST_HND,
    BLOCK_FIRST_HND,
    "BTLPH",
]
HEAD_DIM = 8
DTYPES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Bytes of each, which is all that counts."""
SHAPES = {
    f"{kind}-{dtype}": PageShape(3, parts, 4, heads, dim * size)
    for kind, parts, heads, dim in (("gqa", 2, 2, HEAD_DIM), ("mla", 1, 1, 9))
    for dtype, size in (("fp32", 4), ("bf16", 2), ("fp8", 1))
}
BLOCKS = 6


def pool(order: str, shape: PageShape, seed: int, blocks: int = BLOCKS) -> NumpyPool:
    """A pool of random bytes."""
    layout = Layout.of(order, shape, blocks)
    draw = np.random.default_rng(seed)
    return NumpyPool(layout, draw.integers(0, 256, layout.nbytes, np.uint8))


def spell(p: Any) -> npt.NDArray[np.uint8]:
    """All pages, [pages][layers][parts][tokens][heads][bytes]."""
    shape = p.layout.shape
    every = p.get(range(p.layout.blocks))
    extents = (shape.layers, shape.parts, shape.block_size, shape.heads, shape.row_bytes)
    return np.asarray(every).reshape(len(every), *extents)


def at(layout: Layout, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """What `spell` must give, from the addresses of the bytes, one by one."""
    s, st = layout.shape, layout.strides
    extents = (layout.blocks, s.layers, s.parts, s.block_size, s.heads, s.row_bytes)
    b, la, p, t, h, byte = np.indices(extents, sparse=True)
    where = b * st.block + la * st.layer + p * st.part + t * st.token + h * st.head + byte
    found: npt.NDArray[np.uint8] = data[where]
    return found
