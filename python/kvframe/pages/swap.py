"""Pages between a GPU and pinned host memory, beside compute.

The copy engine leaves compute alone, in three ways:

- ``rows``: a page's rows, one a layer and part, with one strided copy. Nothing waits, but it is two
  thirds of the bus while compute uses the memory, too;
- ``batch``: all rows of all pages in one call of the driver, where they are not evenly apart;
- ``staged``: gathered into a buffer by a kernel, then in one piece. That is the whole bus.

Kernels have to find room. A matrix product fills the multiprocessors, and a kernel of the usual
size waits until it has ended; but cuBLAS's leaves 1,024 registers of each (measured on an H200),
in which a thread block of one warp with 32 registers a thread runs beside it. A warp a
multiprocessor gathers faster than the bus takes; while even that finds no room, some pages travel
as rows: ahead of the first gather on the way out, beside the last scatter on the way in. Such warps
also fill what rows leave of the bus: ``split`` lets a few of them read or write the host for some
pages of a small transfer. For all pages (``kernel``) it takes so many that compute slows, more so
by writes.

`kvframe.pages.calibrate` measures where one way passes the other on a card. `onboard` uses a kernel
that reads the host by such warps: its pieces are small, and each layer has to be ready early.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError
from kvframe.pages import batch, checks, launch
from kvframe.pages.checks import Ids
from kvframe.pages.cupy import CupyPool, cupy
from kvframe.pages.device import DevicePool
from kvframe.pages.driver import allocated
from kvframe.pages.layout import BLOCK_FIRST, Layout
from kvframe.pages.transfer_paths import Way, Ways

SPLIT_BYTES = 64 * 2**20
"""Transfers of so many bytes are split unless measured otherwise: a first gather takes too long."""
LEAD_BYTES = 32 * 2**20
"""Bytes of a staged transfer that travel as rows, while a gather or scatter waits for room."""
CHUNK_BYTES = 64 * 2**20
"""Bytes that are staged at a time, in each of the staging buffers."""
STAGES = 4
"""Staging buffers: enough that the bus has work while a gather waits for a matrix product."""
SPLIT = {True: (3, 8), False: (2, 5)}
"""Of 8 pages out, and in, how many a kernel takes, and for how many multiprocessors it has a warp:
what ends when the copy engine has moved the others. Measured on an H200, matrix products of 1.5 ms
slow by 4 % meanwhile, those of 0.2 ms by a quarter: each starts only where no such warp runs."""


Pages = npt.NDArray[np.int32]
_TO_HOST = cupy.cuda.runtime.memcpyDeviceToHost
_TO_DEVICE = cupy.cuda.runtime.memcpyHostToDevice
_MOST_PITCH = 2**31


class Transfer(cupy.cuda.Event):  # type: ignore[misc]
    """The end of a transfer, or of its part up to a layer.

    Attributes:
        began: When it had its turn on the bus.
    """

    def __init__(self, began: cupy.cuda.Event) -> None:
        super().__init__()
        self.began = began

    @property
    def seconds(self) -> float:
        """What it took; to be asked once it is done."""
        return float(cupy.cuda.get_elapsed_time(self.began, self)) / 1e3


class Swap:
    """Copies between a device pool and a block-first host pool, beside compute.

    Transfers start once what the current stream of the pools' GPU has queued is done, and run on
    streams of their own, in the order of their calls. They return an event: let a stream wait for
    it, or poll it; nothing else waits.

    Args:
        device: Pages on the device.
        host: Block-first pages in pinned memory, as `kvframe.pages.cupy.host_pool` gives them to
            kernels.
        chunk: Pages in each of the staging buffers; `CHUNK_BYTES` of them if None.
        out: Which way a transfer to the host goes; split up to `SPLIT_BYTES` and staged beyond if
            None. `kvframe.pages.calibrate.calibrate` measures it.
        bring: The same for transfers to the device.

    Raises:
        UsageError: Pages differ, the pools are of two GPUs, the host pool is not block-first, the
            chunk is below 1, or a way is not to be had: a page's rows are not evenly apart, or the
            driver has no batch copy.
    """

    def __init__(
        self,
        device: DevicePool,
        host: DevicePool,
        *,
        chunk: int | None = None,
        out: Ways | None = None,
        bring: Ways | None = None,
    ) -> None:
        shape = device.layout.shape
        checks.same_shape(shape, host.layout.shape)
        device.same_device(host)
        block_first = Layout.of(BLOCK_FIRST, shape, host.layout.blocks)
        if host.layout != block_first:
            raise UsageError(f"the host pool is {host.layout.order}: must be {BLOCK_FIRST}, dense")
        if chunk is not None and chunk < 1:
            raise UsageError(f"chunk = {chunk}: must be at least 1 page")
        self.device, self.host = device, host
        self.chunk = min(chunk or max(1, CHUNK_BYTES // shape.page_bytes), host.layout.blocks)
        self._pitch = _pitch(device, host)
        self._most = device.gpu.processors
        usual = Ways((), "staged")
        if self._pitch is not None:
            usual = Ways(((SPLIT_BYTES // shape.page_bytes, "split"),), "staged")
        self.ways = {True: out or usual, False: bring or usual}
        self._lead = 0 if self._pitch is None else LEAD_BYTES // shape.page_bytes
        for way in sorted({way for ways in self.ways.values() for way in ways.all()}):
            if way not in self.possible():
                raise UsageError(f"way = {way!r}: not to be had for these pages and this driver")
        with self._current():
            self._make_streams()

    def _make_streams(self) -> None:
        # All copies on one stream: the engine would take turns between several, so that all of
        # them end at once and it has nothing to do. Where a gather waits for room on the
        # multiprocessors, high priority goes first.
        self._bus = cupy.cuda.Stream(non_blocking=True, priority=-5)
        self._kernels = cupy.cuda.Stream(non_blocking=True, priority=-5)
        self._ends = cupy.cuda.Stream(non_blocking=True)
        self._landed = cupy.cuda.Event()  # what the last call that filled device pages answered
        self._asked, self._before, self._moved = (
            cupy.cuda.Event(disable_timing=True) for _ in range(3)
        )
        staged = Layout.of(BLOCK_FIRST, self.device.layout.shape, self.chunk)
        self._stages = [_Stage(CupyPool(staged)) for _ in range(STAGES)]

    def _current(self) -> Any:
        return cupy.cuda.Device(self.device.gpu.device)

    def possible(self) -> list[Way]:
        """The ways that these pages and this driver have."""
        rows_are_pieces = not any(launch.runs(self.device.layout, self.host.layout))
        found: list[Way] = ["staged", "kernel"]
        if rows_are_pieces and batch.available():
            found.append("batch")
        if self._pitch is not None:
            found += ["rows", "split"]
        return found

    def out(self, pages: Ids, host_pages: Ids) -> cupy.cuda.Event:
        """Copy pages of the device to pages of the host; done when the event is.

        Raises:
            UsageError: An id is out of range, or a host page is named twice.
        """
        return self._run(pages, host_pages, out=True)

    def bring(self, host_pages: Ids, pages: Ids) -> cupy.cuda.Event:
        """Copy pages of the host to pages of the device; ready when the event is."""
        return self._run(pages, host_pages, out=False)

    def onboard(self, host_pages: Ids, pages: Ids) -> list[cupy.cuda.Event]:
        """As `bring`, layer by layer: an event a layer, so that compute may start on the first."""
        stream, ready = self._kernels, []
        with self._current():
            stream.wait_event(cupy.cuda.get_current_stream().record(self._asked))
            stream.wait_event(self._bus.record(self._before))
            began = stream.record(cupy.cuda.Event())
            with stream:
                for _ in self.host.copy_by_layer(self.device, host_pages, pages, warps=self._most):
                    ready.append(stream.record(Transfer(began)))
            self._bus.wait_event(ready[-1])
        self._landed = ready[-1]
        return ready

    def _run(self, pages: Ids, host_pages: Ids, *, out: bool) -> cupy.cuda.Event:
        here, there = self._checked(pages, host_pages, out=out)
        way = self.ways[out].of(len(here))
        run = {
            "rows": self._by_row,
            "batch": self._by_batch,
            "split": self._by_split,
            "staged": self._by_stage,
            "kernel": self._by_kernel,
        }[way]
        with self._current():
            self._bus.wait_event(cupy.cuda.get_current_stream().record(self._asked))
            began = self._bus.record(cupy.cuda.Event())
            run(here, there, out=out)
            ended = self._bus if out or way != "staged" else self._scatters_end()
            answer = ended.record(Transfer(began))
        if not out:
            self._landed = answer
        return answer

    def _checked(self, pages: Ids, host_pages: Ids, *, out: bool) -> tuple[Pages, Pages]:
        ends = [(pages, self.device.layout, "page"), (host_pages, self.host.layout, "host page")]
        (src, source, one), (dst, target, other) = ends if out else ends[::-1]
        copies = checks.copies(src, dst, None, source, target, once=True, names=(one, other))
        here, there = (0, 1) if out else (1, 0)
        return copies[:, here], copies[:, there]

    def _scatters_end(self) -> cupy.cuda.Stream:
        """A stream that waits for the copies and the kernels of the last transfer.

        The next transfer can then queue its copies without waiting for them.
        """
        self._ends.wait_event(self._bus.record(self._before))
        self._ends.wait_event(self._kernels.record(self._moved))
        return self._ends

    def _by_kernel(self, here: Pages, there: Pages, *, out: bool) -> None:
        """A few warps read or write the host; more writing warps would slow compute by a third."""
        self._bus.record(self._before)
        self._aside(here, there, self._most // 4 if out else self._most // 2, out=out)

    def _by_split(self, here: Pages, there: Pages, *, out: bool) -> None:
        """Some pages as rows, which take the host less time to queue, and others by a kernel."""
        share, apart = SPLIT[out]
        aside = len(here) * share // 8
        self._bus.record(self._before)
        self._by_row(here[aside:], there[aside:], out=out)
        self._aside(here[:aside], there[:aside], self._most // apart, out=out)

    def _aside(self, here: Pages, there: Pages, warps: int, *, out: bool) -> None:
        """Queue a kernel that moves pages over the bus.

        It waits for the copies that were queued before `_before` was recorded, and runs beside
        those that were queued after it.
        """
        self._kernels.wait_event(self._before)
        with self._kernels:
            if out:
                self._move(self.device, here, self.host, there, warps)
            else:
                self._move(self.host, there, self.device, here, warps)
        self._bus.wait_event(self._kernels.record(self._moved))

    def _move(self, source: DevicePool, src: Ids, target: DevicePool, dst: Ids, warps: int) -> None:
        if len(src):
            copies = checks.unchecked(src, dst, source.layout.shape.block_size)
            source.move(target, copies, warps=max(1, warps))

    def _by_batch(self, here: Pages, there: Pages, *, out: bool) -> None:
        """Every row of every page, in one call."""
        step = np.uint64(self.device.layout.strides.block)
        page = np.uint64(self.device.layout.shape.page_bytes)
        device = self.device.planes + here.astype(np.uint64)[:, None] * step
        host = self.host.planes + there.astype(np.uint64)[:, None] * page
        ends = (device.reshape(-1), host.reshape(-1))
        source, target = ends if out else ends[::-1]
        self._bus.wait_event(self._landed)
        if len(source):
            sizes = np.full(len(source), int(page) // self.device.planes.size, np.uint64)
            batch.copy(target, source, sizes, self._bus.ptr)

    def _by_stage(self, here: Pages, there: Pages, *, out: bool) -> None:
        """In chunks, and a few row by row meanwhile."""
        lead = min(self._lead, len(here) // 2)
        if out:
            self._by_row(here[:lead], there[:lead], out=True)
            self._gathered(*_by_neighbours(here[lead:], there[lead:]))
        else:
            self._scattered(*_by_neighbours(here[lead:], there[lead:]))
            self._by_row(here[:lead], there[:lead], out=False)

    def _by_row(self, here: Pages, there: Pages, *, out: bool) -> None:
        """One strided copy a page."""
        pool, page = self.device, self.device.layout.shape.page_bytes
        rows, pitch, stream = pool.planes.size, self._pitch, self._bus.ptr
        row, step = page // rows, pool.layout.strides.block
        base, host = int(pool.planes[0]), int(self.host.planes[0])
        move = cupy.cuda.runtime.memcpy2DAsync
        self._bus.wait_event(self._landed)
        for page_here, page_there in zip(here.tolist(), there.tolist(), strict=True):
            device, packed = base + page_here * step, host + page_there * page
            if out:
                move(packed, row, device, pitch, row, rows, _TO_HOST, stream)
            else:
                move(device, pitch, packed, row, row, rows, _TO_DEVICE, stream)

    def _gathered(self, here: Pages, there: Pages) -> None:
        """Chunk after chunk into staging buffers by a kernel, and to the host in one piece."""
        self._kernels.wait_event(self._asked)
        self._kernels.wait_event(self._landed)
        for stage, first in zip(cycle(self._stages), range(0, len(here), self.chunk), strict=False):
            some = here[first : first + self.chunk]
            self._kernels.wait_event(stage.free)
            with self._kernels:
                self._move(self.device, some, stage.pool, range(len(some)), self._most)
            self._bus.wait_event(self._kernels.record(stage.full))
            self._dma(stage.pool, there[first : first + self.chunk], out=True)
            self._bus.record(stage.free)

    def _scattered(self, here: Pages, there: Pages) -> None:
        """Chunk after chunk in one piece into staging buffers, and to their pages by a kernel."""
        for stage, first in zip(cycle(self._stages), range(0, len(here), self.chunk), strict=False):
            some = here[first : first + self.chunk]
            self._bus.wait_event(stage.free)
            self._dma(stage.pool, there[first : first + self.chunk], out=False)
            self._kernels.wait_event(self._bus.record(stage.full))
            with self._kernels:
                self._move(stage.pool, range(len(some)), self.device, some, self._most)
            self._kernels.record(stage.free)

    def _dma(self, stage: DevicePool, there: Pages, *, out: bool) -> None:
        """One copy for each run of neighbours on the host.

        The bus rests for some microseconds after each unless they are handed over together: 1 % of
        the time, as measured on an H200 with pages of 2 MiB.
        """
        size, stream = np.uint64(self.device.layout.shape.page_bytes), self._bus.ptr
        rows, pages, counts = checks.neighbours(there)
        ends = (stage.planes[0] + rows * size, self.host.planes[0] + pages * size)
        source, target = ends if out else ends[::-1]
        if batch.available():
            batch.copy(target, source, counts * size, stream)
            return
        kind = _TO_HOST if out else _TO_DEVICE
        for each in zip(target.tolist(), source.tolist(), (counts * size).tolist(), strict=True):
            cupy.cuda.runtime.memcpyAsync(*each, kind, stream)


def _by_neighbours(here: Pages, there: Pages) -> tuple[Pages, Pages]:
    """In the order of the host's pages: neighbours there travel in one copy."""
    order = np.argsort(there, kind="stable")
    return here[order], there[order]


class _Stage:
    """A staging buffer: ``full`` once a chunk is in it, ``free`` once it has left."""

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        self.full = cupy.cuda.Event(disable_timing=True)
        self.free = cupy.cuda.Event(disable_timing=True)


def _pitch(device: DevicePool, host: DevicePool) -> int | None:
    """Bytes from a page's row to its next, if they are in one piece each and evenly apart.

    A strided copy stays within one allocation: the driver refuses others. Tensors that an engine
    allocated one by one may well be evenly apart.
    """
    if any(launch.runs(device.layout, host.layout)):
        return None
    apart = np.diff(device.planes)
    least = device.layout.shape.page_bytes // device.planes.size
    if not len(apart):
        return least
    step = int(apart[0])
    if (apart != apart[0]).any() or not least <= step < _MOST_PITCH:
        return None
    with cupy.cuda.Device(device.gpu.device):
        memory = allocated(int(device.planes[0]))
    last = (device.layout.blocks - 1) * device.layout.strides.block
    end = int(device.planes[-1]) + last + least
    return step if end <= memory.stop else None
