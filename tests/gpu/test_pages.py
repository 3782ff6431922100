"""The CuPy backend beside the NumPy backend, bit by bit, on a card."""

from __future__ import annotations

from itertools import product
from typing import Any

import cupy
import numpy as np
import pytest

from kvframe import UsageError
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.pages.cupy import CupyPool, host_pool, pinned

from ..pages.helpers import BLOCKS, ORDERS, SHAPES, pool, spell

SIZES = {**SHAPES, "odd": PageShape(2, 2, 4, 3, 6), "8b": PageShape(4, 2, 16, 8, 256)}


def both(order: str, shape: PageShape, seed: int) -> tuple[CupyPool, NumpyPool]:
    """The same random pages on the card and on the host."""
    host = pool(order, shape, seed)
    device = CupyPool(host.layout)
    device.put(range(BLOCKS), host.get(range(BLOCKS)))
    return device, host


def same(device: Any, host: NumpyPool) -> None:
    assert np.array_equal(spell(device), spell(host))


@pytest.mark.parametrize("shape", SIZES.values(), ids=SIZES)
def test_moves_between_all_layouts(shape: PageShape) -> None:
    src, dst, tails = [5, 0, 3, 2], [1, 4, 0, 2], [0, 1, shape.block_size - 1, shape.block_size]
    for one, other in product(ORDERS, ORDERS):
        (d_from, h_from), (d_to, h_to) = both(one, shape, 1), both(other, shape, 2)
        for p in (d_to, h_to):
            p.poison(range(BLOCKS))
        d_from.copy_to(d_to, src, dst, tails)
        h_from.copy_to(h_to, src, dst, tails)
        same(d_to, h_to)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["gqa-bf16", "mla-fp8", "odd", "8b"])
def test_chains_tokens_and_fills(order: str, name: str) -> None:
    draw, shape = np.random.default_rng(5), SIZES[name]
    device, host = both(order, shape, 1)
    for n in (1, 2, 5, 8, 300):
        src, dst = draw.integers(0, BLOCKS, (2, n))
        tokens = draw.integers(0, shape.block_size + 1, n)
        device.copy(src, dst, tokens)
        host.copy(src, dst, tokens)
        same(device, host)
    table, count = [4, 1, 5], 2 * shape.block_size + 1
    fused = draw.integers(0, 256, (count, 3 * shape.heads, shape.row_bytes), np.uint8)
    kv = [fused[:, i * shape.heads :][:, : shape.heads] for i in range(shape.parts)]
    size = shape.block_size
    slots = np.array([table[t // size] * size + t % size for t in range(count)])
    slots[2] = -1
    there = cupy.asarray(fused)
    views = [there[:, i * shape.heads :][:, : shape.heads] for i in range(shape.parts)]
    device.write(1, views, cupy.asarray(slots))
    device.write(0, views, slots)
    for p in (device, host):
        p.zero([3])
        p.poison([0, 2])
    host.write(1, kv, slots)
    host.write(0, kv, slots)
    same(device, host)
    for start in (0, 3):
        got = device.read(1, table, count, start=start)
        wanted = host.read(1, table, count, start=start)
        for a, b in zip(got, wanted, strict=True):
            assert np.array_equal(cupy.asnumpy(a), b)
    assert np.array_equal(device.checksum([1, 4]), host.checksum([1, 4]))


def test_copies_run_on_the_callers_stream_and_nothing_waits() -> None:
    device, host = both(LAYER_FIRST, SIZES["8b"], 1)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a = cupy.ones((4096, 4096), cupy.float32)
        device.copy(np.array([3]), np.array([3]), np.array([0]))  # compiled before
        a @ a
        stream.synchronize()
        for _ in range(50):
            a = a @ a
        device.copy(np.array([0]), np.array([1]))
        device.copy(np.array([1]), np.array([2]))
        assert not stream.done, "a copy waited for the device"
    stream.synchronize()
    host.copy([0, 1], [1, 2])
    same(device, host)


def test_an_engines_tensors_are_adopted_in_place() -> None:
    draw = np.random.default_rng(3)
    kv = cupy.asarray(draw.integers(0, 2**16, (3, 2, 5, 4, 2, 8), np.uint16))
    wanted = NumpyPool.adopt(cupy.asnumpy(kv), "LPBTHD")
    for arrays, axes in ((kv, "LPBTHD"), (list(kv), "PBTHD"), ([tuple(x) for x in kv], "BTHD")):
        same(CupyPool.adopt(arrays, axes), wanted)
    CupyPool.adopt(list(kv), "PBTHD").copy([0], [4], [3])
    assert bool((kv[:, :, 4, :3] == kv[:, :, 0, :3]).all())
    torch = pytest.importorskip("torch", reason="needs torch")
    tensor = torch.zeros((2, 5, 4, 2, 8), dtype=torch.bfloat16, device="cuda").view(torch.int16)
    adopted = CupyPool.adopt([tensor], "PBTHD")
    adopted.poison([3])
    cupy.cuda.get_current_stream().synchronize()
    assert (tensor[:, 3] == -1).all()
    assert (tensor[:, :3] == 0).all()
    with pytest.raises(UsageError, match="last axis"):
        CupyPool.adopt(kv[..., ::2], "LPBTHD")
    with pytest.raises(UsageError, match="neither"):
        CupyPool.adopt([[[1]]], "BTD")
    with pytest.raises(UsageError, match="must be CUDA's"):
        CupyPool.adopt(np.zeros((2, 2, 2)), "BTD")


def test_pinned_memory_is_exact_and_reached_by_kernels() -> None:
    assert pinned(3 * 2**20 + 1).nbytes == 3 * 2**20 + 1
    shape = SIZES["8b"]
    device, host = both(LAYER_FIRST, shape, 1)
    for order in ORDERS:
        pages, mapped = host_pool(Layout.of(order, shape, BLOCKS))
        pages.poison(range(BLOCKS))
        device.copy_to(mapped, [5, 1], [0, 3], [16, 7], warps=4)
        cupy.cuda.get_current_stream().synchronize()
        wanted = NumpyPool(pages.layout)
        wanted.poison(range(BLOCKS))
        host.copy_to(wanted, [5, 1], [0, 3], [16, 7])
        assert np.array_equal(spell(pages), spell(wanted))
