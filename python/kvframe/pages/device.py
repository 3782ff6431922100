"""Pages in memory that kernels reach: the part of a GPU backend that needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe._core import few_copies
from kvframe.errors import UsageError
from kvframe.pages import checks, launch
from kvframe.pages.checks import Copies, Ids
from kvframe.pages.checksum import checksums, differing
from kvframe.pages.launch import FEW, Block, Gpu
from kvframe.pages.layout import BLOCK_FIRST, Layout
from kvframe.pages.numpy import NumpyPool
from kvframe.pages.pool import POISON

GRID = 32
"""Thread blocks a multiprocessor, for copies within the device: enough to fill it."""


class DevicePool:
    """A `PagePool` whose bytes are moved by kernels, on the current stream of its device.

    Nothing waits for the device, except `get`, `checksum` and `verify`, which answer on the host
    and wait for the current stream. A call is one launch, however many pages it names.

    Args:
        gpu: Where kernels run.
        layout: Where the bytes are.
        planes: Address of each layer and part, layer by layer.
        owner: Kept alive as long as the pool: whose memory it is.
        dtype: What `read` answers in.
    """

    def __init__(
        self,
        gpu: Gpu,
        layout: Layout,
        planes: npt.NDArray[np.uint64],
        owner: object,
        dtype: npt.DTypeLike = np.uint8,
    ) -> None:
        self.gpu, self._layout, self.owner, self.dtype = gpu, layout, owner, np.dtype(dtype)
        if layout.shape.row_bytes % self.dtype.itemsize:
            raise UsageError(
                f"dtype {self.dtype}: a row of {layout.shape.row_bytes} bytes is no multiple of it"
            )
        self.planes = planes
        self.alignment = launch.alignment(planes, layout)
        self._table, self._kept = gpu.upload(planes)
        self._blocks: dict[Layout, Block] = {}
        self._own = self._move(self)  # the copies of a step, made ready
        self._blocks.clear()
        self._own.value["src"] = self._own.value["dst"] = self.pool_argument()
        self._few, self._count = self._own.row["few"][0], self._own.row["chains"]
        shape, every = layout.shape, layout.shape.layers * layout.shape.parts
        self._own.value["planes"] = every
        self._threads = launch.threads(shape.page_bytes // (every * self.alignment), 4)
        self._grid = GRID * gpu.processors

    @property
    def layout(self) -> Layout:
        return self._layout

    def same_device(self, other: DevicePool) -> None:
        """Raise unless kernels of one device reach both pools."""
        if self.gpu.device != other.gpu.device:
            raise UsageError(
                f"the pools are of GPUs {self.gpu.device} and {other.gpu.device}: must be of one"
            )

    def pool_argument(self, first_plane: int = 0) -> tuple[int, int, int, int]:
        """The pool as the kernels see it, from a plane on."""
        steps = self._layout.strides
        return self._table + 8 * first_plane, steps.block, steps.token, steps.head

    # --- pages --------------------------------------------------------------------------------

    def copy(self, src: Ids, dst: Ids, tokens: Ids | None = None) -> None:
        size, blocks = self._layout.shape.block_size, self._layout.blocks
        count = few_copies(src, dst, tokens, self._few, block_size=size, blocks=blocks)
        if not count:
            self.copy_to(self, src, dst, tokens)
            return
        self._count[0] = count
        grid = min(count * self.planes.size, self._grid)
        self.gpu.launch("move_pages", self.alignment, grid, self._threads, self._own)

    def copy_to(
        self,
        other: DevicePool,
        src: Ids,
        dst: Ids,
        tokens: Ids | None = None,
        *,
        layers: tuple[int, int] | None = None,
        warps: int | None = None,
    ) -> None:
        """Copy pages into another pool that kernels reach, of any layout.

        Args:
            other: On the device, or mapped host memory (`kvframe.pages.cupy.host_pool`).
            src: Pages to read.
            dst: Pages of ``other`` to write, each once if it is another pool.
            tokens: First tokens of each that matter; whole pages if None.
            layers: From the first to before the second; all if None.
            warps: At most so many, each alone in a thread block and of few registers, so that they
                find room beside compute; as many as the device holds if None. Where a page is not
                in whole pieces in both pools, they share larger thread blocks, which may wait.
        """
        first, last = layers if layers is not None else (0, self._layout.shape.layers)
        if not 0 <= first < last <= self._layout.shape.layers:
            raise UsageError(
                f"layers {first} to {last}: must lie within 0 to {self._layout.shape.layers}"
            )
        _at_least_one(warps)
        copies = self._checked(other, src, dst, tokens)
        if len(copies):
            made, kept = self._ready(other, copies)
            self._launch(made, other, first, last, warps)
            del kept  # past the launch: later allocations of this stream come after it

    def move(self, other: DevicePool, copies: Copies, *, warps: int) -> None:
        """As `copy_to`, of copies that the caller has checked, and whose pages are of one shape."""
        made, kept = self._ready(other, copies)
        self._launch(made, other, 0, self._layout.shape.layers, warps)
        del kept  # as above

    def copy_by_layer(
        self, other: DevicePool, src: Ids, dst: Ids, *, warps: int | None = None
    ) -> Iterator[int]:
        """As `copy_to`, a launch a layer: yields each layer once its copies are queued.

        Ids are checked and sent to the device once. Nothing else may be copied between the same two
        pools before the last layer is queued.
        """
        _at_least_one(warps)
        copies = self._checked(other, src, dst, None)
        made, kept = self._ready(other, copies)
        for layer in range(self._layout.shape.layers):
            if len(copies):
                self._launch(made, other, layer, layer + 1, warps)
            yield layer
        del kept

    def _checked(self, other: DevicePool, src: Ids, dst: Ids, tokens: Ids | None) -> Copies:
        checks.same_shape(self._layout.shape, other.layout.shape)
        self.same_device(other)
        within = other is self
        return checks.copies(src, dst, tokens, self._layout, other.layout, once=not within)

    def _ready(self, other: DevicePool, copies: Copies) -> tuple[Block, object]:
        """Copies in the arguments of a launch, and what keeps them there."""
        chained = checks.chains(copies) if other is self else None
        if chained is not None:
            copies, starts = chained
        block = self._move(other)
        value = block.value
        value["copies"], kept = self._ids(value, copies.reshape(-1))
        value["chains"], value["starts"], also = len(copies), 0, None
        if chained is not None:
            value["chains"] = len(starts) - 1
            value["starts"], also = self.gpu.upload(starts)
        return block, (kept, also)

    def _launch(
        self, block: Block, other: DevicePool, first: int, last: int, warps: int | None
    ) -> None:
        """Queue ready copies of some layers."""
        shape, value = self._layout.shape, block.value
        planes = (last - first) * shape.parts
        value["src"] = self.pool_argument(first * shape.parts)
        value["dst"] = other.pool_argument(first * shape.parts)
        value["planes"] = planes
        word = min(self.alignment, other.alignment)
        threads = launch.threads(shape.page_bytes // (shape.layers * shape.parts * word), 4)
        name, most = "move_pages", self._grid
        if warps is not None:
            if value["token_runs"] or value["head_runs"] or value["starts"]:
                most = max(1, warps * launch.WARP // threads)
            else:
                name, threads, most = "move_beside", launch.WARP, warps
        self.gpu.launch(name, word, min(int(value["chains"]) * planes, most), threads, block)

    def _move(self, other: DevicePool) -> Block:
        """Arguments that do not change from copy to copy."""
        if (found := self._blocks.get(other.layout)) is None:
            shape = self._layout.shape
            token_runs, head_runs = launch.runs(self._layout, other.layout)
            found = Block(
                launch.MOVE,
                tokens=shape.block_size,
                heads=shape.heads,
                row=shape.row_bytes,
                token_runs=token_runs,
                head_runs=head_runs,
            )
            self._blocks[other.layout] = found
        return found

    def _ids(self, value: Any, ids: npt.NDArray[np.int32]) -> tuple[int, object]:
        """Ids into a launch's arguments, or onto the device: their address there, or 0."""
        if len(ids) <= 3 * FEW:
            value["few"][: len(ids)] = ids
            return 0, None
        return self.gpu.upload(ids)

    def zero(self, ids: Ids) -> None:
        self._fill(ids, 0)

    def poison(self, ids: Ids) -> None:
        self._fill(ids, POISON)

    def _fill(self, ids: Ids, byte: int) -> None:
        at = checks.pages(ids, self._layout.blocks).astype(np.int32)
        if not len(at):
            return
        shape = self._layout.shape
        planes = shape.layers * shape.parts
        block = Block(
            launch.FILL,
            pool=self.pool_argument(),
            count=len(at),
            planes=planes,
            tokens=shape.block_size,
            heads=shape.heads,
            row=shape.row_bytes,
            byte=byte,
        )
        block.value["ids"], kept = self._ids(block.value, at)
        words = shape.page_bytes // (planes * self.alignment)
        grid = min(len(at) * planes, self._grid)
        self.gpu.launch("fill_pages", self.alignment, grid, launch.threads(words), block)
        del kept

    # --- tokens -------------------------------------------------------------------------------

    def write(self, layer: int, kv: Sequence[Any], slots: Any) -> None:
        """See `PagePool.write`. Slots on the host are checked; those on the device are not read:
        others than the pool's are left out, as -1 is.
        """
        shape = self._layout.shape
        checks.layer(layer, shape)
        checks.parts(kv, shape)
        if isinstance(slots, np.ndarray | list | tuple):
            places = checks.whole(slots, "slots")
            checks.within(places, -1, self._layout.blocks * shape.block_size, "slot")
            count, (address, kept) = len(places), self.gpu.upload(places)
        else:
            address, extent, strides, dtype = self.gpu.describe(slots)
            if dtype != np.int64 or len(extent) != 1 or strides not in ((8,), ()):
                raise UsageError(f"slots are {dtype} {extent}: must be a contiguous row of int64")
            count, kept = extent[0], slots
        self._tokens("write_tokens", layer, kv, count, slots=address)
        del kept

    def read(self, layer: int, table: Ids, length: int, *, start: int = 0) -> list[Any]:
        shape = self._layout.shape
        checks.layer(layer, shape)
        held = checks.span(table, start, length, self._layout)
        extent = (length - start, shape.heads, shape.row_bytes // self.dtype.itemsize)
        out = [self.gpu.empty(extent, self.dtype) for _ in range(shape.parts)]
        address, kept = self.gpu.upload(held)
        self._tokens("read_tokens", layer, out, length - start, table=address, start=start)
        del kept
        return out

    def _tokens(self, kernel: str, layer: int, kv: Sequence[Any], count: int, **more: int) -> None:
        shape = self._layout.shape
        told = [self.gpu.describe(part) for part in kv]
        for _, extent, strides, dtype in told:
            checks.items(extent, strides, dtype.itemsize, count, shape)
            if strides[:2] != told[0][2][:2]:
                raise UsageError(f"KV strides differ: {strides} and {told[0][2]}")
        if not count:
            return
        token, head = told[0][2][:2]
        block = Block(
            launch.TOKENS,
            pool=self.pool_argument(layer * shape.parts),
            token=token,
            head=head,
            end=self._layout.blocks * shape.block_size,
            count=count,
            parts=shape.parts,
            size=shape.block_size,
            heads=shape.heads,
            row=shape.row_bytes,
            **more,
        )
        block.value["items"][: shape.parts] = [address for address, *_ in told]
        word = launch.word(self.alignment, token, head, *(address for address, *_ in told))
        words = shape.heads * shape.row_bytes // word
        grid = min(count * shape.parts, self._grid)
        self.gpu.launch(kernel, word, grid, launch.threads(words), block)

    # --- bytes --------------------------------------------------------------------------------

    def get(self, ids: Ids) -> npt.NDArray[np.uint8]:
        at = checks.pages(ids, self._layout.blocks)
        if not len(at):
            return np.empty((0, self._layout.shape.page_bytes), np.uint8)
        rows, array = self._rows(len(at))
        self.copy_to(rows, at, np.arange(len(at)))
        return self.gpu.download(array)

    def put(self, ids: Ids, pages: npt.NDArray[np.uint8]) -> None:
        at = checks.pages(ids, self._layout.blocks)
        checks.rows(pages, len(at), self._layout.shape)
        if not len(at):
            return
        address, kept = self.gpu.upload(np.ascontiguousarray(pages))
        self._over(address, len(at), kept).copy_to(self, np.arange(len(at)), at)

    def _rows(self, count: int) -> tuple[DevicePool, Any]:
        """A block-first pool of its own on the device, and its array [pages][page bytes]."""
        array = self.gpu.empty((count, self._layout.shape.page_bytes), np.dtype(np.uint8))
        return self._over(self.gpu.describe(array)[0], count, array), array

    def _over(self, address: int, count: int, owner: object) -> DevicePool:
        layout = Layout.of(BLOCK_FIRST, self._layout.shape, count)
        return DevicePool(self.gpu, layout, plane_addresses(layout, address), owner)

    def checksum(self, ids: Ids) -> npt.NDArray[np.uint64]:
        return checksums(self.get(ids))

    def verify(self, ids: Ids, sums: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        return differing(checks.pages(ids, self._layout.blocks), self.checksum(ids), sums)


def _at_least_one(warps: int | None) -> None:
    if warps is not None and warps < 1:
        raise UsageError(f"warps = {warps}: must be at least 1")


def plane_addresses(layout: Layout, address: int) -> npt.NDArray[np.uint64]:
    """The address of each layer and part of a pool in one allocation."""
    shape, steps = layout.shape, layout.strides
    layers = np.arange(shape.layers, dtype=np.uint64) * np.uint64(steps.layer)
    parts = np.arange(shape.parts, dtype=np.uint64) * np.uint64(steps.part)
    return (np.uint64(address) + layers[:, None] + parts).reshape(-1)


def over_host(gpu: Gpu, pool: NumpyPool, buffer: npt.NDArray[np.uint8]) -> DevicePool:
    """A host pool as kernels reach it; its buffer must be memory that the device can address."""
    planes = plane_addresses(pool.layout, buffer.ctypes.data)
    return DevicePool(gpu, pool.layout, planes, pool, pool.dtype)
