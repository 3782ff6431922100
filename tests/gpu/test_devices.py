"""A pool of one card while another is current, as in a process that drives several."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

from kvframe import UsageError
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.pages.cupy import CupyPool, host_pool
from kvframe.pages.swap import Swap
from kvframe.pages.transfer_paths import WAYS, Ways

pytestmark = pytest.mark.skipif(
    cupy.cuda.runtime.getDeviceCount() < 2, reason="one GPU: these tests need two"
)
SHAPE, BLOCKS = PageShape(4, 2, 16, 8, 256), 40
LAYOUT = Layout.of(LAYER_FIRST, SHAPE, BLOCKS)
BOTH = Layout.of(BLOCK_FIRST, SHAPE, BLOCKS)
EVERY = range(BLOCKS)


def on_second(make: Any, *given: Any) -> Any:
    with cupy.cuda.Device(1):
        return make(*given)


@pytest.fixture(autouse=True)
def first_is_current() -> Any:
    with cupy.cuda.Device(0):
        yield
        assert cupy.cuda.runtime.getDevice() == 0, "a call changed the current GPU"


def drawn() -> Any:
    return np.random.default_rng(0).integers(0, 256, (BLOCKS, SHAPE.page_bytes), np.uint8)


def test_a_pool_stays_on_its_card() -> None:
    pool, wanted, pages = on_second(CupyPool, LAYOUT), NumpyPool(LAYOUT), drawn()
    many = np.arange(300) % 20, np.arange(300) % 20 + 20
    for each in (pool, wanted):
        each.put(EVERY, pages)
        each.copy([0, 1], [2, 3], [5, 16])
        each.copy(many[0][-20:], many[1][-20:])
        each.zero([7])
        each.poison(np.arange(30, 40))
    fresh = on_second(cupy.full, (5, SHAPE.heads, SHAPE.row_bytes), 9, cupy.uint8)
    pool.write(1, [fresh, fresh], np.arange(5))
    wanted.write(1, [cupy.asnumpy(fresh)] * 2, np.arange(5))
    assert np.array_equal(pool.get(EVERY), wanted.get(EVERY))
    for one, other in zip(pool.read(1, [0, 7], 20), wanted.read(1, [0, 7], 20), strict=True):
        assert one.device.id == 1
        assert np.array_equal(cupy.asnumpy(one), other)
    assert np.array_equal(pool.checksum([0, 3]), wanted.checksum([0, 3]))


def test_its_own_stream_is_kept_in_order() -> None:
    pool, pages = on_second(CupyPool, LAYOUT), drawn()
    pool.put(EVERY, pages)
    pool.get([0])  # waits for it
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream(non_blocking=True)
        big = cupy.ones((4096, 4096), cupy.float32)
        with stream:
            for _ in range(20):
                big = big @ big
            with cupy.cuda.Device(0):
                pool.copy([0], [1])
                pool.copy([1], [2])
            assert not stream.done, "a copy waited, or went to another stream"
            assert np.array_equal(pool.get([2])[0], pages[0])


@pytest.mark.parametrize("way", WAYS)
def test_pages_are_swapped(way: Any) -> None:
    pool, pages, draw = on_second(CupyPool, LAYOUT), drawn(), np.random.default_rng(1)
    pool.put(EVERY, pages)
    host, mapped = on_second(host_pool, BOTH)
    swap = Swap(pool, mapped, chunk=7, out=Ways((), way), bring=Ways((), way))
    here, there = draw.permutation(BLOCKS)[:23], draw.permutation(BLOCKS)[:23]
    swap.out(here, there).synchronize()
    assert np.array_equal(host.get(there), pages[here])
    for bring in (swap.bring, lambda *ids: swap.onboard(*ids)[-1]):
        pool.poison(EVERY)
        on_second(cupy.cuda.Device(1).synchronize)
        bring(there, here).synchronize()
        assert np.array_equal(pool.get(here), pages[here])


def test_an_engines_tensors_are_adopted_where_they_are() -> None:
    pages = drawn().view(np.int16).reshape(BLOCKS, 4, 2, 16, 8, 128)
    torch = pytest.importorskip("torch", reason="needs torch")
    ours = on_second(cupy.asarray, pages)
    for tensor in (ours, torch.from_numpy(pages).to("cuda:1")):
        pool = CupyPool.adopt(tensor, "BLPTHD")
        pool.copy([0], [1])
        assert np.array_equal(pool.get([1]), pages[:1].view(np.uint8).reshape(1, -1))
        there = cupy.asnumpy(ours) if tensor is ours else tensor.cpu().numpy()
        assert np.array_equal(there[1], pages[0]), "a copy was adopted"
        assert np.array_equal(there[2:], pages[2:])


def test_what_is_of_another_card_is_refused() -> None:
    pool, other = on_second(CupyPool, LAYOUT), CupyPool(LAYOUT)
    with pytest.raises(UsageError, match="GPUs 1 and 0"):
        pool.copy_to(other, [0], [0])
    with pytest.raises(UsageError, match="GPUs 1 and 0"):
        Swap(pool, host_pool(BOTH)[1])
    here = cupy.zeros((1, SHAPE.heads, SHAPE.row_bytes), cupy.uint8)
    with pytest.raises(UsageError, match="on GPU 0: must be on the pool's, 1"):
        pool.write(0, [here, here], [0])
    halves = [cupy.zeros((2, 5, 4, 2, 8)), on_second(cupy.zeros, (2, 5, 4, 2, 8))]
    with pytest.raises(UsageError, match="on GPU 1: must be on the pool's, 0"):
        CupyPool.adopt(halves, "PBTHD")
