"""Pages between a GPU and pinned host memory: staged, row by row, or by a kernel.

Measured on an H100 and an H200, a kernel that reads or writes the host keeps multiprocessors busy
for as long as the bus is slow, and slows compute beside it by 15 to 50 %. The copy engine leaves
compute alone, in two ways:

- a page's rows, one a layer and part, with one strided copy: no kernel, so nothing waits for room
  behind compute, but two thirds of the bus while compute uses the memory, too;
- gathered into a staging buffer by a kernel, then in one piece: the whole bus, but the kernel may
  wait as long as a matrix product takes.

So `Swap` sends a few pages row by row, and stages more of them. `onboard` uses a kernel with a
quota of thread blocks: its pieces are small, and each layer has to be ready early.
"""

from __future__ import annotations

from collections.abc import Iterator

import cupy
import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError
from kvframe.pages import checks, launch
from kvframe.pages.checks import Ids
from kvframe.pages.cupy import CupyPool
from kvframe.pages.device import DevicePool
from kvframe.pages.layout import BLOCK_FIRST, Layout

QUOTA = 8
"""Thread blocks of a kernel that reads or writes the host: more of them are not faster."""
ROWS_BYTES = 64 * 2**20
"""Transfers of so many bytes travel row by row: what the bus moves while a matrix product runs."""
CHUNK_BYTES = 128 * 2**20
"""Bytes that are staged at a time, in each of the staging buffers."""
STAGES = 3
"""Staging buffers: enough that the bus has work while a gather waits for a matrix product."""


_TO_HOST = cupy.cuda.runtime.memcpyDeviceToHost
_TO_DEVICE = cupy.cuda.runtime.memcpyHostToDevice
_MOST_PITCH = 2**31


class Swap:
    """Copies between a device pool and a block-first host pool, beside compute.

    Transfers start once what the current stream has queued is done, and run on streams of their
    own. They answer an event: let a stream wait for it, or poll it; nothing else waits.

    Args:
        device: Pages on the device.
        host: Block-first pages in pinned memory, as `kvframe.pages.cupy.host_pool` gives them to
            kernels.
        chunk: Pages in each of the staging buffers; `CHUNK_BYTES` of them if None.
        rows: Most pages of a transfer that travels row by row; `ROWS_BYTES` of them if None. None
            do where a page's rows are not evenly apart on the device.

    Raises:
        UsageError: Pages differ, the host pool is not block-first, or the chunk is below 1.
    """

    def __init__(
        self,
        device: DevicePool,
        host: DevicePool,
        *,
        chunk: int | None = None,
        rows: int | None = None,
    ) -> None:
        shape = device.layout.shape
        checks.same_shape(shape, host.layout.shape)
        block_first = Layout.of(BLOCK_FIRST, shape, host.layout.blocks)
        if host.layout != block_first:
            raise UsageError(f"the host pool is {host.layout.order}: must be {BLOCK_FIRST}, dense")
        if chunk is not None and chunk < 1:
            raise UsageError(f"chunk = {chunk}: must be at least 1 page")
        if rows is not None and rows < 0:
            raise UsageError(f"rows = {rows}: must be at least 0 pages")
        self.device, self.host = device, host
        self.chunk = min(chunk or max(1, CHUNK_BYTES // shape.page_bytes), host.layout.blocks)
        self._pitch = _pitch(device, host)
        self.rows = ROWS_BYTES // shape.page_bytes if rows is None else rows
        if self._pitch is None:
            self.rows = 0
        # A gather waits behind compute for room on the multiprocessors; high priority goes first.
        self._streams = [cupy.cuda.Stream(non_blocking=True, priority=-5) for _ in range(STAGES)]
        staged = Layout.of(BLOCK_FIRST, shape, self.chunk)
        self._stages = [CupyPool(staged) for _ in self._streams]

    def out(self, pages: Ids, host_pages: Ids) -> cupy.cuda.Event:
        """Copy pages of the device to pages of the host; done when the event is.

        Raises:
            UsageError: An id is out of range, or a host page is named twice.
        """
        return self._run(pages, host_pages, out=True)

    def bring(self, host_pages: Ids, pages: Ids) -> cupy.cuda.Event:
        """Copy pages of the host to pages of the device; ready when the event is."""
        return self._run(pages, host_pages, out=False)

    def onboard(self, host_pages: Ids, pages: Ids, *, quota: int = QUOTA) -> list[cupy.cuda.Event]:
        """As `bring`, layer by layer: an event a layer, so that compute may start on the first."""
        stream, shape = self._streams[0], self.device.layout.shape
        stream.wait_event(cupy.cuda.get_current_stream().record())
        ready = []
        with stream:
            for layer in range(shape.layers):
                one = (layer, layer + 1)
                self.host.copy_to(self.device, host_pages, pages, layers=one, quota=quota)
                ready.append(stream.record(cupy.cuda.Event()))
        return ready

    def _run(self, pages: Ids, host_pages: Ids, *, out: bool) -> cupy.cuda.Event:
        here = checks.pages(pages, self.device.layout.blocks)
        there = checks.pages(host_pages, self.host.layout.blocks, "host page")
        if len(here) != len(there):
            raise UsageError(f"{len(here)} pages, but {len(there)} host pages")
        checks.once(there if out else here, "host page" if out else "page")
        order = np.argsort(there, kind="stable")  # neighbours on the host travel in one copy
        here, there = here[order], there[order]
        start = cupy.cuda.get_current_stream().record()
        if len(here) <= self.rows:
            return self._by_row(here, there, start, out=out)
        return self._by_stage(here, there, start, out=out)

    def _by_row(
        self,
        here: npt.NDArray[np.int64],
        there: npt.NDArray[np.int64],
        start: cupy.cuda.Event,
        *,
        out: bool,
    ) -> cupy.cuda.Event:
        """One strided copy a page."""
        pool, page = self.device, self.device.layout.shape.page_bytes
        rows, pitch, stream = pool.planes.size, self._pitch, self._streams[0]
        row, step = page // rows, pool.layout.strides.block
        base, host = int(pool.planes[0]), int(self.host.planes[0])
        move = cupy.cuda.runtime.memcpy2DAsync
        stream.wait_event(start)
        for page_here, page_there in zip(here.tolist(), there.tolist(), strict=True):
            device, packed = base + page_here * step, host + page_there * page
            if out:
                move(packed, row, device, pitch, row, rows, _TO_HOST, stream.ptr)
            else:
                move(device, pitch, packed, row, row, rows, _TO_DEVICE, stream.ptr)
        return stream.record(cupy.cuda.Event())

    def _by_stage(
        self,
        here: npt.NDArray[np.int64],
        there: npt.NDArray[np.int64],
        start: cupy.cuda.Event,
        *,
        out: bool,
    ) -> cupy.cuda.Event:
        """Gathered or scattered by kernels, over the bus in one piece."""
        for stream in self._streams:
            stream.wait_event(start)
        # Small chunks where the bus would wait for a kernel: first on the way out, last on that in.
        sizes = list(_ramp(len(here), self.chunk))
        first = 0
        for number, size in enumerate(sizes if out else reversed(sizes)):
            turn, some = number % STAGES, slice(first, first + size)
            stage, rows, first = self._stages[turn], np.arange(size), first + size
            with self._streams[turn] as stream:
                if out:
                    self.device.copy_to(stage, here[some], rows)
                self._dma(stage, there[some], stream, out=out)
                if not out:
                    stage.copy_to(self.device, rows, here[some])
        last, *others = self._streams
        for stream in others:
            last.wait_event(stream.record())
        return last.record(cupy.cuda.Event())

    def _dma(
        self,
        stage: DevicePool,
        there: npt.NDArray[np.int64],
        stream: cupy.cuda.Stream,
        *,
        out: bool,
    ) -> None:
        """One copy for each run of neighbours on the host."""
        size = self.device.layout.shape.page_bytes
        staged, host = int(stage.planes[0]), int(self.host.planes[0])
        kind = _TO_HOST if out else _TO_DEVICE
        for row, page, count in checks.neighbours(there):
            ends = (staged + row * size, host + page * size)
            source, target = ends if out else ends[::-1]
            cupy.cuda.runtime.memcpyAsync(target, source, count * size, kind, stream.ptr)


def _ramp(pages: int, chunk: int) -> Iterator[int]:
    """So many pages in chunks that grow from an eighth."""
    size = max(1, chunk // 8)
    while pages:
        size = min(size, pages)
        yield size
        pages -= size
        size = min(2 * size, chunk)


def _pitch(device: DevicePool, host: DevicePool) -> int | None:
    """Bytes from a page's row to its next, if they are in one piece each and evenly apart."""
    if any(launch.runs(device.layout, host.layout)):
        return None
    apart = np.diff(device.planes)
    least = device.layout.shape.page_bytes // device.planes.size
    if not len(apart):
        return least
    step = int(apart[0])
    return step if (apart == apart[0]).all() and least <= step < _MOST_PITCH else None
