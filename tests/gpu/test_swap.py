"""Swap between a card and pinned host memory: bitwise, in chunks, layer by layer."""

from __future__ import annotations

from pathlib import Path

import cupy
import numpy as np
import pytest

from kvframe import UsageError
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, LAYER_FIRST_HND, Layout, PageShape
from kvframe.pages.calibrate import calibrate
from kvframe.pages.cupy import CupyPool, host_pool
from kvframe.pages.swap import Swap
from kvframe.pages.transfer_paths import WAYS, Way, Ways

SHAPE, BLOCKS = PageShape(4, 2, 16, 8, 256), 40


@pytest.mark.scenario("S28")
@pytest.mark.parametrize("order", [LAYER_FIRST, BLOCK_FIRST, LAYER_FIRST_HND])
@pytest.mark.parametrize("chunk", [1, 7, None])
@pytest.mark.parametrize("way", [*WAYS, None])
def test_out_and_back_is_exact(order: str, chunk: int | None, way: Way | None) -> None:
    draw = np.random.default_rng(chunk or 0)
    device = CupyPool(Layout.of(order, SHAPE, BLOCKS))
    pages = draw.integers(0, 256, (BLOCKS, SHAPE.page_bytes), np.uint8)
    device.put(range(BLOCKS), pages)
    host, mapped = host_pool(Layout.of(BLOCK_FIRST, SHAPE, BLOCKS))
    host.poison(range(BLOCKS))
    ways = None if way is None else Ways((), way)
    if order == LAYER_FIRST_HND and way in ("rows", "batch", "split"):
        with pytest.raises(UsageError, match="not to be had for these pages"):
            Swap(device, mapped, chunk=chunk, out=ways)
        return
    swap = Swap(device, mapped, chunk=chunk, out=ways, bring=ways)
    here, there = draw.permutation(BLOCKS)[:23], draw.permutation(BLOCKS)[:23]
    swap.out(here, there).synchronize()
    wanted = np.full_like(pages, 0xFF)
    wanted[there] = pages[here]
    assert np.array_equal(host.get(range(BLOCKS)), wanted)
    other = draw.permutation(BLOCKS)[:23]
    for bring in ("bring", "onboard"):
        device.poison(range(BLOCKS))
        if bring == "bring":
            cupy.cuda.get_current_stream().wait_event(swap.bring(there, other))
        else:
            ready = swap.onboard(there, other)
            assert len(ready) == SHAPE.layers
            cupy.cuda.get_current_stream().wait_event(ready[-1])
        expected = np.full_like(pages, 0xFF)
        expected[other] = pages[here]
        assert np.array_equal(device.get(range(BLOCKS)), expected)


@pytest.mark.parametrize("way", [*WAYS, None])
def test_rows_in_allocations_of_their_own_are_not_copied_as_one(way: Way | None) -> None:
    """Two are always evenly apart; the driver refuses a strided copy from one into the other."""
    shape = PageShape(1, 2, 16, 8, 256)
    pieces = [cupy.cuda.MemoryPointer(cupy.cuda.Memory(4 << 20), 0) for _ in range(2)]
    keys, values = sorted(pieces, key=lambda piece: int(piece.ptr))
    arrays = [cupy.ndarray((BLOCKS, 16, 8, 256), np.uint8, memptr=at) for at in (keys, values)]
    device = CupyPool.adopt([tuple(arrays)], "BTHD")
    assert device.layout.shape == shape
    host, mapped = host_pool(Layout.of(BLOCK_FIRST, shape, BLOCKS))
    ways = None if way is None else Ways((), way)
    if way in ("rows", "split"):
        with pytest.raises(UsageError, match="not to be had for these pages"):
            Swap(device, mapped, out=ways)
        return
    draw = np.random.default_rng(7)
    pages = draw.integers(0, 256, (BLOCKS, shape.page_bytes), np.uint8)
    device.put(range(BLOCKS), pages)
    swap = Swap(device, mapped, out=ways, bring=ways)
    swap.out(range(BLOCKS), range(BLOCKS)).synchronize()
    assert np.array_equal(host.get(range(BLOCKS)), pages)
    device.poison(range(BLOCKS))
    swap.bring(range(BLOCKS), range(BLOCKS)).synchronize()
    assert np.array_equal(device.get(range(BLOCKS)), pages)


@pytest.mark.parametrize("way", [*WAYS, None])
def test_calls_take_effect_in_their_order(way: Way | None) -> None:
    draw = np.random.default_rng(1)
    device = CupyPool(Layout.of(LAYER_FIRST, SHAPE, BLOCKS))
    host, mapped = host_pool(Layout.of(BLOCK_FIRST, SHAPE, BLOCKS))
    there, here = (draw.integers(0, 256, (BLOCKS, SHAPE.page_bytes), np.uint8) for _ in range(2))
    device.put(range(BLOCKS), here)
    host.put(range(BLOCKS), there)
    ways = None if way is None else Ways((), way)
    swap = Swap(device, mapped, chunk=3, out=ways, bring=ways)
    for _ in range(12):  # none waits for the one before it
        pages, host_pages = (draw.permutation(BLOCKS)[:17] for _ in range(2))
        verb = draw.choice(["out", "bring", "onboard"])
        if verb == "out":
            swap.out(pages, host_pages)
            there[host_pages] = here[pages]
        else:
            getattr(swap, verb)(host_pages, pages)
            here[pages] = there[host_pages]
    cupy.cuda.Device().synchronize()
    assert np.array_equal(device.get(range(BLOCKS)), here)
    assert np.array_equal(host.get(range(BLOCKS)), there)


def test_what_is_refused() -> None:
    device = CupyPool(Layout.of(LAYER_FIRST, SHAPE, 4))
    _, mapped = host_pool(Layout.of(BLOCK_FIRST, SHAPE, 4))
    _, other = host_pool(Layout.of(LAYER_FIRST, SHAPE, 4))
    with pytest.raises(UsageError, match="must be BLPTH"):
        Swap(device, other)
    swap = Swap(device, mapped)
    with pytest.raises(UsageError, match="2 pages, but 1 host pages"):
        swap.out([0, 1], [2])
    with pytest.raises(UsageError, match="host page 2 is named 2 times"):
        swap.out([0, 1], [2, 2])
    with pytest.raises(UsageError, match="host page 4"):
        swap.bring([4], [0])


def test_a_calibration_is_measured_once_and_kept(tmp_path: Path) -> None:
    device = CupyPool(Layout.of(LAYER_FIRST, SHAPE, 64))
    _, mapped = host_pool(Layout.of(BLOCK_FIRST, SHAPE, 64))
    first = calibrate(device, mapped, folder=tmp_path, sizes=(1, 16))
    assert {m.way for m in first.measured} == set(WAYS)
    assert all(m.seconds > 0 for m in first.measured)
    (kept,) = tmp_path.iterdir()
    written = kept.stat().st_mtime_ns
    assert calibrate(device, mapped, folder=tmp_path) == first
    assert kept.stat().st_mtime_ns == written
    kept.write_text("{}")  # of another version: measured anew
    assert calibrate(device, mapped, folder=tmp_path, sizes=(1, 16)).measured
    swap = Swap(device, mapped, out=first.out, bring=first.bring)
    swap.out([1, 2], [3, 4]).synchronize()
