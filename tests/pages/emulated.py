"""The kernels without a card: kernels/*.cu compiled for the processor, a thread after the other.

What differs from a card: there are no races to see and no limits of the device. Addresses, sizes,
words, orders and tails are the same, and so is all host code.
"""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.pages.launch import Block, source

_SHIM = """
struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
struct uint2 { unsigned x, y; } __attribute__((aligned(8)));
struct dim { int x; };
static dim threadIdx, blockIdx, blockDim, gridDim;
#define __device__
#define __global__ static
#define __grid_constant__
#define __launch_bounds__(...)
"""
_ENTRY = """
extern "C" void run_NAME(const STRUCT* args, int grid, int threads) {
    gridDim.x = grid; blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) NAME(*args);
}
extern "C" int size_STRUCT() { return sizeof(STRUCT); }
"""
KERNELS = {
    "move_pages": "Move",
    "move_beside": "Move",
    "fill_pages": "Fill",
    "write_tokens": "Tokens",
    "read_tokens": "Tokens",
}


@cache
def library(word: int) -> ctypes.CDLL:
    """The kernels for words of a size."""
    code = _SHIM + source().replace('extern "C" __global__', "__global__")
    seen: set[str] = set()
    for name, struct in KERNELS.items():
        entry = _ENTRY.replace("NAME", name).replace("STRUCT", struct)
        code += entry if struct not in seen else entry.rpartition('extern "C" int')[0]
        seen.add(struct)
    folder = Path(mkdtemp())
    (folder / "kernels.cpp").write_text(code)
    command = ["c++", "-O1", "-shared", "-fPIC", "-w", "-fno-strict-aliasing", f"-DWORD={word}"]
    subprocess.run([*command, "kernels.cpp", "-o", "kernels.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


class Emulated:
    """A `kvframe.pages.launch.Gpu` whose device memory is the host's."""

    def __init__(self, device: int = 0) -> None:
        self.device, self.processors = device, 3
        self.launches: list[tuple[str, int, int]] = []

    def launch(self, kernel: str, word: int, grid: int, threads: int, block: Block) -> None:
        found = library(word)
        assert getattr(found, f"size_{KERNELS[kernel]}")() == block.nbytes
        getattr(found, f"run_{kernel}")(ctypes.c_void_p(block.address), grid, threads)
        self.launches.append((kernel, word, grid))

    def upload(self, array: npt.NDArray[Any]) -> tuple[int, object]:
        kept = np.array(array)
        return kept.ctypes.data, kept

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        return np.full(shape, 0xEE, np.uint8).astype(dtype)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
        return array.ctypes.data, array.shape, array.strides, array.dtype

    def download(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array.copy()
