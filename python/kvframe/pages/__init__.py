"""The bytes of a KV cache: pools of pages in host or GPU memory, and what is done with them.

`NumpyPool` is the reference; `kvframe.pages.cupy.CupyPool` does the same on a GPU. A pool may be an
engine's own memory, in any layout.
"""

from __future__ import annotations

from kvframe.pages.layout import (
    BLOCK_FIRST,
    BLOCK_FIRST_HND,
    LAYER_FIRST,
    LAYER_FIRST_HND,
    LAYER_FIRST_TOGETHER,
    PAGE_FIRST,
    PARTS_FIRST,
    Layout,
    PageShape,
    Strides,
)
from kvframe.pages.numpy import NumpyPool
from kvframe.pages.plan import Settled, run_plan
from kvframe.pages.pool import POISON, PagePool

__all__ = [
    "BLOCK_FIRST",
    "BLOCK_FIRST_HND",
    "LAYER_FIRST",
    "LAYER_FIRST_HND",
    "LAYER_FIRST_TOGETHER",
    "PAGE_FIRST",
    "PARTS_FIRST",
    "POISON",
    "Layout",
    "NumpyPool",
    "PagePool",
    "PageShape",
    "Settled",
    "Strides",
    "run_plan",
]
