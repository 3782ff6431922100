"""Arguments of the kernels: structs as kernels/*.cu declare them, and how a launch is laid out."""

from __future__ import annotations

import math
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kvframe.pages.layout import Layout

FEW = 128
"""Copies, or ids, that travel in the arguments of a launch; more of them are uploaded."""
WORDS = (16, 8, 4, 2, 1)
"""Sizes of a word, in bytes, that the kernels are compiled for."""
WARP = 32
"""Threads of a thread block that finds room beside compute: more of them wait for its end."""
THREADS = 512
"""Most threads of a thread block: with 4 loads of 16 bytes each they take a 32 KiB piece."""

_POOL = [("planes", "u8"), ("block", "i8"), ("token", "i8"), ("head", "i8")]
_PAGE = [("tokens", "i4"), ("heads", "i4"), ("row", "i4")]
_FEW = ("few", "i4", (3 * FEW,))


def _struct(fields: list[Any]) -> np.dtype[Any]:
    return np.dtype(fields, align=True)


POOL = _struct(_POOL)
MOVE = _struct(
    [
        *(("src", POOL), ("dst", POOL), ("copies", "u8"), ("starts", "u8"), ("chains", "i4")),
        *(("planes", "i4"), *_PAGE, ("token_runs", "i4"), ("head_runs", "i4"), _FEW),
    ]
)
FILL = _struct(
    [
        *(("pool", POOL), ("ids", "u8"), ("count", "i4"), ("planes", "i4"), *_PAGE),
        *(("byte", "i4"), _FEW),
    ]
)
TOKENS = _struct(
    [
        *(("pool", POOL), ("items", "u8", (2,)), ("token", "i8"), ("head", "i8")),
        *(("slots", "u8"), ("table", "u8"), ("end", "i8"), ("start", "i4"), ("count", "i4")),
        *(("parts", "i4"), ("size", "i4"), ("heads", "i4"), ("row", "i4")),
    ]
)


class Block:
    """The argument block of a launch, kept and changed in place.

    Attributes:
        value: Its fields.
        row: The same, as an array of one: its fields are views.
        address: Where its bytes are.
        nbytes: How many they are.
        arguments: Address of a launch's table of arguments, whose only one these bytes are.
    """

    def __init__(self, struct: np.dtype[Any], **fields: Any) -> None:
        self.row = np.zeros(1, struct)
        self.value = self.row[0]
        self.address, self.nbytes = self.row.ctypes.data, struct.itemsize
        self._table = np.array([self.address], np.uint64)
        self.arguments = self._table.ctypes.data
        for name, value in fields.items():
            self.value[name] = value


class Gpu(Protocol):
    """What a backend needs of a device; everything is queued on the caller's current stream.

    Attributes:
        device: Its number. Whichever is current, calls go to this one, on its current stream.
        processors: How many multiprocessors it has.
    """

    device: int
    processors: int

    def launch(self, kernel: str, word: int, grid: int, threads: int, block: Block) -> None:
        """Queue a kernel. ``block`` may be changed as soon as this returns."""

    def upload(self, array: npt.NDArray[Any]) -> tuple[int, object]:
        """The address of a copy on the device, and what keeps it there."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A new array on the device."""

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
        """Address, shape, strides in bytes and dtype of an array on the device, checked."""

    def download(self, array: Any) -> npt.NDArray[Any]:
        """A copy on the host. Waits for the current stream, and for nothing else."""


def source() -> str:
    """All kernels as one source."""
    folder = files("kvframe.pages") / "kernels"
    names = ("common.cuh", "move.cu", "fill.cu", "tokens.cu")
    return "\n".join((folder / name).read_text() for name in names)


def word(*multiples: int) -> int:
    """The largest word that all of these are multiples of."""
    return math.gcd(WORDS[0], *multiples)


def alignment(planes: npt.NDArray[np.uint64], layout: Layout) -> int:
    """What the addresses of all rows of a pool are a multiple of, up to a word."""
    steps = layout.strides
    addresses = int(np.gcd.reduce(planes))
    return word(addresses, steps.block, steps.token, steps.head, layout.shape.row_bytes)


def threads(words: int, in_flight: int = 1) -> int:
    """Threads for so many words, in whole warps."""
    return min(THREADS, max(WARP, -(-words // (WARP * in_flight)) * WARP))


def runs(one: Layout, other: Layout) -> tuple[bool, bool]:
    """Whether tokens, and whether heads, are apart in either pool, so that runs end there."""
    shape = one.shape
    row, heads, tokens = shape.row_bytes, shape.heads, shape.block_size
    both = (one.strides, other.strides)
    if heads == 1 or all(s.head == row for s in both):
        whole = tokens == 1 or all(s.token == heads * row for s in both)
        return not whole, False
    return not (tokens == 1 or all(s.token == row for s in both)), True
