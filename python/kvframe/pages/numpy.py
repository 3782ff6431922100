"""Pages in host memory, in NumPy: the reference that other backends are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.pages import checks
from kvframe.pages.adopt import Array, adopt, flat
from kvframe.pages.checks import Copies, Ids
from kvframe.pages.checksum import checksums, differing
from kvframe.pages.layout import BLOCK_FIRST, Layout
from kvframe.pages.pool import POISON

Bytes = npt.NDArray[np.uint8]


class NumpyPool:
    """A `PagePool` in host memory.

    Args:
        layout: Where the bytes are.
        buffer: Bytes to use (pinned, shared or mapped memory), at least ``layout.nbytes``; fresh
            zeroed memory if None.
        dtype: What `read` answers in; its size divides a row's bytes.

    Raises:
        UsageError: The buffer is too small, read-only or not contiguous; the dtype does not divide.
    """

    def __init__(
        self, layout: Layout, buffer: Any = None, *, dtype: npt.DTypeLike = np.uint8
    ) -> None:
        if not isinstance(layout, Layout):
            raise UsageError(f"layout = {shown(layout)}: must be a Layout")
        data = np.zeros(layout.nbytes, np.uint8) if buffer is None else _bytes(buffer)
        if len(data) < layout.nbytes:
            raise UsageError(f"the buffer has {len(data)} bytes: the layout needs {layout.nbytes}")
        shape, steps = layout.shape, layout.strides
        if not (steps.layer and steps.part):
            raise UsageError("the layout has layers or parts apart: it is adopted, not allocated")
        extents = (shape.layers, shape.parts, layout.blocks, shape.block_size, shape.heads)
        view = as_strided(data, (*extents, shape.row_bytes), (*steps, 1))
        try:
            found = np.dtype(dtype)
        except TypeError as error:
            raise UsageError(f"dtype = {shown(dtype)}: {error}") from None
        self._set(layout, [view], found)

    @classmethod
    def adopt(cls, arrays: Any, axes: str, *, block_size: int | None = None) -> NumpyPool:
        """A pool over an engine's own host arrays, without a copy.

        Args:
            arrays: An array of all layers; a list with one a layer; or a list with a (keys, values)
                pair a layer. NumPy arrays, or whatever has ``__array_interface__`` or DLPack on a
                CPU (dtypes that NumPy lacks, as bfloat16: view them as uint8 or int16 first).
            axes: Axes of each array, outermost first: L(ayer) P(art) B(lock) T(oken) H(ead) D(im);
                S(lot) for B and T in one.
            block_size: Tokens in a block, needed with S.

        Raises:
            UsageError: Axes, shape, device, memory order or dtype are not what a pool can use.
        """
        given, each = flat(arrays)
        found = [_host(array) for array in given]
        told = [Array(a.shape, a.strides, a.itemsize, a.flags.writeable) for a in found]
        adopted = adopt(told, each, axes, block_size)
        pool = cls.__new__(cls)
        views = [as_strided(a.view(np.uint8), adopted.shape, adopted.strides) for a in found]
        pool._set(adopted.layout, views, found[0].dtype)
        return pool

    def _set(self, layout: Layout, views: list[Bytes], dtype: np.dtype[Any]) -> None:
        if layout.shape.row_bytes % dtype.itemsize:
            raise UsageError(
                f"dtype {dtype} has {dtype.itemsize} bytes: a row has {layout.shape.row_bytes}"
            )
        self._layout, self.dtype = layout, dtype
        # [layers][parts][pages][tokens][heads][bytes], each of some layers and parts of the pool.
        self._views = views

    @property
    def layout(self) -> Layout:
        return self._layout

    # --- pages --------------------------------------------------------------------------------

    def copy(self, src: Ids, dst: Ids, tokens: Ids | None = None) -> None:
        self.copy_to(self, src, dst, tokens)

    def copy_to(self, other: NumpyPool, src: Ids, dst: Ids, tokens: Ids | None = None) -> None:
        """Copy pages into another pool, of any layout; as `copy`, but each is written once."""
        if not isinstance(other, NumpyPool):
            raise UsageError(f"other = {shown(other)}: must be a NumpyPool")
        checks.same_shape(self.layout.shape, other.layout.shape)
        within = other is self
        copies = checks.copies(src, dst, tokens, self.layout, other.layout, once=not within)
        chained = checks.chains(copies) if within else None
        if chained is not None:
            batches = np.split(copies, len(copies))
        else:
            batches = [copies[copies[:, 2] == many] for many in np.unique(copies[:, 2])]
        for batch in batches:
            _move(self._pairs(other), batch)

    def _pairs(self, other: NumpyPool) -> Iterator[tuple[Bytes, Bytes]]:
        """Views of both pools that hold the same layers and parts."""
        if len(self._views) == len(other._views):
            return zip(self._views, other._views, strict=True)
        return zip(self._planes(), other._planes(), strict=True)

    def _planes(self) -> Iterator[Bytes]:
        """Layer by layer, and part by part within."""
        for view in self._views:
            for layer in range(view.shape[0]):
                for part in range(view.shape[1]):
                    yield view[layer : layer + 1, part : part + 1]

    def zero(self, ids: Ids) -> None:
        self._fill(ids, 0)

    def poison(self, ids: Ids) -> None:
        self._fill(ids, POISON)

    def _fill(self, ids: Ids, byte: int) -> None:
        at = checks.pages(ids, self.layout.blocks)
        for view in self._views:
            view[:, :, at] = byte

    # --- tokens -------------------------------------------------------------------------------

    def write(self, layer: int, kv: Sequence[Any], slots: Any) -> None:
        page = self.layout.shape
        planes = self._layer(layer)
        checks.parts(kv, page)
        places = checks.whole(slots, "slots")
        checks.within(places, -1, self.layout.blocks * page.block_size, "slot")
        rows = [np.asarray(part) for part in kv]
        for part in rows:
            checks.items(part.shape, part.strides, part.itemsize, len(places), page)
        kept = places >= 0
        block, offset = np.divmod(places[kept], page.block_size)
        for plane, part in zip(planes, rows, strict=True):
            plane[block, offset] = part.view(np.uint8)[kept]

    def read(
        self, layer: int, table: Ids, length: int, *, start: int = 0
    ) -> list[npt.NDArray[Any]]:
        planes = self._layer(layer)
        held = checks.span(table, start, length, self.layout)
        token = np.arange(start, length)
        size = self.layout.shape.block_size
        block, offset = held[token // size - start // size], token % size
        return [plane[block, offset].view(self.dtype) for plane in planes]

    def _layer(self, layer: int) -> list[Bytes]:
        """Each part of a layer: [pages][tokens][heads][bytes]."""
        layer = checks.layer(layer, self.layout.shape)
        if len(self._views) == 1:
            return list(self._views[0][layer])
        each = len(self._views) // self.layout.shape.layers
        return [part for view in self._views[layer * each : (layer + 1) * each] for part in view[0]]

    # --- bytes --------------------------------------------------------------------------------

    def rows(self) -> Bytes | None:
        """All pages, not copied: uint8 [pages][page bytes], if each lies as `get` gives it."""
        dense = Layout.of(BLOCK_FIRST, self.layout.shape, self.layout.blocks)
        if len(self._views) != 1 or self.layout.strides != dense.strides:
            return None
        extents = (self.layout.blocks, self.layout.shape.page_bytes)
        return as_strided(self._views[0], extents, (extents[1], 1))

    def get(self, ids: Ids) -> Bytes:
        at = checks.pages(ids, self.layout.blocks)
        out = np.empty((len(at), self.layout.shape.page_bytes), np.uint8)
        if len(at):
            self.copy_to(self._rows(out), at, np.arange(len(at)))
        return out

    def put(self, ids: Ids, pages: Bytes) -> None:
        at = checks.pages(ids, self.layout.blocks)
        checks.rows(pages, len(at), self.layout.shape)
        if len(at):
            rows = self._rows(np.array(pages, order="C"))  # writable, whatever was given
            rows.copy_to(self, np.arange(len(at)), at)

    def _rows(self, pages: Bytes) -> NumpyPool:
        return NumpyPool(Layout.of(BLOCK_FIRST, self.layout.shape, len(pages)), pages.reshape(-1))

    def checksum(self, ids: Ids) -> npt.NDArray[np.uint64]:
        return checksums(self.get(ids))

    def verify(self, ids: Ids, sums: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        return differing(checks.pages(ids, self.layout.blocks), self.checksum(ids), sums)


def _move(pairs: Iterator[tuple[Bytes, Bytes]], batch: Copies) -> None:
    """Copies with one number of tokens."""
    src, dst, many = batch[:, 0], batch[:, 1], int(batch[0, 2])
    for one, other in pairs:
        other[:, :, dst, :many] = one[:, :, src, :many]


def _bytes(buffer: Any) -> Bytes:
    """A buffer as a row of bytes."""
    try:
        array = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    except TypeError as error:
        raise UsageError(f"buffer = {shown(buffer)}: {error}") from None
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise UsageError("the buffer is read-only or not contiguous: a pool is written")
    return array.reshape(-1).view(np.uint8)


def _host(array: Any) -> npt.NDArray[Any]:
    """An array of another library as NumPy's, without a copy."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__array_interface__"):
        return np.asarray(array)
    if not hasattr(array, "__dlpack__"):
        raise UsageError(f"a {type(array).__name__} has neither __array_interface__ nor DLPack")
    kind, number = array.__dlpack_device__()
    if kind != 1:
        raise UsageError(
            f"the array is on device ({int(kind)}, {number}): must be on a CPU, (1, 0)"
        )
    try:
        found: npt.NDArray[Any] = np.from_dlpack(array)
    except (BufferError, RuntimeError) as error:
        raise UsageError(f"NumPy cannot adopt it ({error}): view it as uint8 first") from error
    return found
