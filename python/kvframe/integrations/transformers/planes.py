"""The engine's key and value tensors as a pool's pages, and the host memory below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kvframe.pages import BLOCK_FIRST, Layout, NumpyPool, PagePool
from kvframe.tiers import Mover

AXES = "SHD"
"""Of each tensor: slots (blocks and their tokens), heads, values."""


def adopted(
    cache: Any, pages: int
) -> tuple[PagePool, Sequence[NumpyPool] | None, Sequence[Mover] | None]:
    """A pool over a cache's tensors, nothing copied; on a card, pinned memory and a mover too.

    Args:
        cache: The engine's: ``key_cache`` and ``value_cache`` have a tensor a layer.
        pages: Of the host tier.

    Raises:
        ImportError: The tensors are on a card, and CuPy is not installed.
    """
    # As bytes: NumPy has no bfloat16, and only the width of a value matters.
    pairs = [
        (keys.view(torch.uint8), values.view(torch.uint8))
        for keys, values in zip(cache.key_cache, cache.value_cache, strict=True)
    ]
    device = torch.device(cache.device)
    if device.type == "cpu":
        arrays = [(keys.numpy(), values.numpy()) for keys, values in pairs]
        return NumpyPool.adopt(arrays, AXES, block_size=cache.block_size), None, None
    from kvframe.pages.cupy import CupyPool, cupy, host_pool
    from kvframe.pages.swap import Swap

    torch.cuda.synchronize(device)
    with cupy.cuda.Device(pairs[0][0].device.index):
        pool = CupyPool.adopt(pairs, AXES, block_size=cache.block_size)
        memory, mapped = host_pool(Layout.of(BLOCK_FIRST, pool.layout.shape, pages))
        return pool, [memory], [Swap(pool, mapped)]
