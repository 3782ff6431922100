"""Pages between a GPU and pinned host memory: staged through the copy engine, or by a kernel.

Measured on an H100 and an H200, a kernel that reads or writes the host keeps multiprocessors busy
for as long as the bus is slow, and slows compute beside it by 15 to 50 %. A gather into a staging
buffer and a copy by the DMA engine leaves compute alone and reaches 98 % of the bus, once some
dozens of pages travel together. So `Swap` stages; `onboard` uses a kernel with a quota of thread
blocks, because its pieces are small and each layer has to be ready early.
"""

from __future__ import annotations

import cupy
import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError
from kvframe.pages import checks
from kvframe.pages.checks import Ids
from kvframe.pages.cupy import CupyPool
from kvframe.pages.device import DevicePool
from kvframe.pages.layout import BLOCK_FIRST, Layout

QUOTA = 8
"""Thread blocks of a kernel that reads or writes the host: more of them are not faster."""
CHUNK_BYTES = 128 * 2**20
"""Bytes that are staged at a time, in each of two buffers."""


class Swap:
    """Copies between a device pool and a block-first host pool, beside compute.

    Transfers start once what the current stream has queued is done, and run on two streams of their
    own. They answer an event: let a stream wait for it, or poll it; nothing else waits.

    Args:
        device: Pages on the device.
        host: Block-first pages in pinned memory, as `kvframe.pages.cupy.host_pool` gives them to
            kernels.
        chunk: Pages in each of the two staging buffers; `CHUNK_BYTES` of them if None.

    Raises:
        UsageError: Pages differ, the host pool is not block-first, or the chunk is below 1.
    """

    def __init__(self, device: DevicePool, host: DevicePool, *, chunk: int | None = None) -> None:
        shape = device.layout.shape
        checks.same_shape(shape, host.layout.shape)
        block_first = Layout.of(BLOCK_FIRST, shape, host.layout.blocks)
        if host.layout != block_first:
            raise UsageError(f"the host pool is {host.layout.order}: must be {BLOCK_FIRST}, dense")
        if chunk is not None and chunk < 1:
            raise UsageError(f"chunk = {chunk}: must be at least 1 page")
        self.device, self.host = device, host
        self.chunk = min(chunk or max(1, CHUNK_BYTES // shape.page_bytes), host.layout.blocks)
        # A gather waits behind compute for room on the multiprocessors; high priority goes first.
        self._streams = [cupy.cuda.Stream(non_blocking=True, priority=-5) for _ in range(2)]
        staged = Layout.of(BLOCK_FIRST, shape, self.chunk)
        self._stages = [CupyPool(staged) for _ in range(2)]

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
        for stream in self._streams:
            stream.wait_event(start)
        for number, first in enumerate(range(0, len(here), self.chunk)):
            turn = number % 2
            stage, some = self._stages[turn], slice(first, first + self.chunk)
            rows = np.arange(len(here[some]))
            with self._streams[turn] as stream:
                if out:
                    self.device.copy_to(stage, here[some], rows)
                self._dma(stage, there[some], stream, out=out)
                if not out:
                    stage.copy_to(self.device, rows, here[some])
        first_stream, second = self._streams
        first_stream.wait_event(second.record())
        return first_stream.record(cupy.cuda.Event())

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
        kind = cupy.cuda.runtime.memcpyDeviceToHost if out else cupy.cuda.runtime.memcpyHostToDevice
        for row, page, count in checks.neighbours(there):
            ends = (staged + row * size, host + page * size)
            source, target = ends if out else ends[::-1]
            cupy.cuda.runtime.memcpyAsync(target, source, count * size, kind, stream.ptr)
