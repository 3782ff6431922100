"""Pages in GPU memory, through CuPy; and host memory that a GPU reaches.

Everything is queued on CuPy's current stream of the pool's GPU. For a stream of another library::

    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        pool.copy(src, dst)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError
from kvframe.pages.adopt import Array, adopt, flat
from kvframe.pages.device import DevicePool, over_host, plane_addresses
from kvframe.pages.launch import Block, source
from kvframe.pages.layout import Layout
from kvframe.pages.numpy import NumpyPool

try:
    import cupy as cupy  # the modules beside this one take it from here, message and all
except ImportError as error:
    raise ImportError(
        "pages on a GPU need CuPy: pip install 'kvframe[cuda13]', or 'kvframe[cuda12]'"
    ) from error

_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream
_launch = cupy.cuda.driver.launchKernel


@cache
def _module(device: int, word: int) -> Any:
    """The kernels, compiled at their first use on a device for a size of words."""
    return cupy.RawModule(code=source(), options=(f"-DWORD={word}", "-std=c++17"))


@cache
def _kernel(device: int, name: str, word: int) -> int:
    """The driver's handle of a kernel on a device, which lives as long as its module."""
    return int(_module(device, word).get_function(name).kernel.ptr)


class CupyGpu:
    """A device, the current one if None, as `kvframe.pages.launch.Gpu` wants it."""

    def __init__(self, device: int | None = None) -> None:
        self.device = int(_current_device()) if device is None else device
        told = cupy.cuda.runtime.getDeviceProperties(self.device)
        self.processors = int(told["multiProcessorCount"])

    def launch(self, kernel: str, word: int, grid: int, threads: int, block: Block) -> None:
        if _current_device() != self.device:
            with self._current():
                self.launch(kernel, word, grid, threads, block)
            return
        # This is the driver's own call. CuPy's checks each argument first, and takes 1.5 times as
        # long.
        function = _kernel(self.device, kernel, word)
        stream = _current_stream().ptr
        _launch(function, grid, 1, 1, threads, 1, 1, 0, stream, block.arguments, 0)

    def upload(self, array: npt.NDArray[Any]) -> tuple[int, object]:
        # A copy out of pageable memory has read all of it when the call returns.
        source = np.ascontiguousarray(array)
        with self._current():
            kept = cupy.cuda.alloc(source.nbytes)
            kept.copy_from_host_async(source.ctypes.data, source.nbytes)
        return int(kept.ptr), kept

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        with self._current():
            return cupy.empty(shape, dtype)

    def describe(self, array: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
        found = _on(self.device, array)
        return int(found.data.ptr), found.shape, found.strides, found.dtype

    def download(self, array: Any) -> npt.NDArray[Any]:
        with self._current():
            host: npt.NDArray[Any] = cupy.asnumpy(array)
        return host

    def synchronize(self) -> None:
        """Wait for the current stream."""
        with self._current():
            cupy.cuda.get_current_stream().synchronize()

    def _current(self) -> Any:
        return cupy.cuda.Device(self.device)


class CupyPool(DevicePool):
    """A `PagePool` in a device's memory.

    Args:
        layout: Where the bytes are.
        memory: uint8 on a device, at least ``layout.nbytes``; fresh, zeroed and on the current
            device if None.
        dtype: What `read` answers in.

    Raises:
        UsageError: The memory is too small or not on a device; the dtype does not divide a row.
    """

    def __init__(
        self, layout: Layout, memory: Any = None, *, dtype: npt.DTypeLike = np.uint8
    ) -> None:
        found = _as_cupy(cupy.zeros(layout.nbytes, cupy.uint8) if memory is None else memory)
        if not found.flags.c_contiguous or found.nbytes < layout.nbytes:
            raise UsageError(
                f"the memory has {found.nbytes} bytes, contiguous: {found.flags.c_contiguous}; "
                f"the layout needs {layout.nbytes} in one piece"
            )
        planes = plane_addresses(layout, int(found.data.ptr))
        gpu = CupyGpu(found.device.id)
        super().__init__(gpu, layout, planes, found, dtype)
        gpu.synchronize()  # once: from here on any stream may use it

    @classmethod
    def adopt(cls, arrays: Any, axes: str, *, block_size: int | None = None) -> DevicePool:
        """A pool over an engine's own arrays on one device, without a copy.

        Args:
            arrays: As for `NumpyPool.adopt`; CuPy, torch, JAX: whatever has
                ``__cuda_array_interface__`` or DLPack.
            axes: As there.
            block_size: As there.

        Raises:
            UsageError: Axes, shape, device, memory order or dtype are not what a pool can use.
        """
        given, each = flat(arrays)
        found = [_as_cupy(array) for array in given]
        gpu = CupyGpu(found[0].device.id)
        found = [_on(gpu.device, array) for array in found]
        told = [Array(a.shape, a.strides, a.itemsize, True) for a in found]
        adopted = adopt(told, each, axes, block_size)
        steps = adopted.layout.strides
        layers = [layer * steps.layer for layer in range(adopted.shape[0])]
        parts = [part * steps.part for part in range(adopted.shape[1])]
        planes = [int(a.data.ptr) + la + p for a in found for la in layers for p in parts]
        pool = DevicePool(
            gpu, adopted.layout, np.array(planes, np.uint64), (arrays, found), found[0].dtype
        )
        gpu.synchronize()  # once, as above
        return pool


def pinned(nbytes: int) -> npt.NDArray[np.uint8]:
    """Page-locked host memory that the device reaches, of exactly this size.

    CuPy's and torch's pinned pools round up to a power of two. Pages lie on the NUMA node of the
    thread that touches them first, so call it on the card's node. Freed with the array.

    Raises:
        MemoryError: The system has not as much.
    """
    if nbytes < 1:
        raise UsageError(f"{nbytes} bytes of pinned memory: must be at least 1")
    try:
        memory = cupy.cuda.pinned_memory.PinnedMemory(nbytes, cupy.cuda.runtime.hostAllocPortable)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MemoryError(f"{nbytes} bytes of pinned memory: {error}") from error
    whole = cupy.cuda.PinnedMemoryPointer(memory, 0)
    return np.frombuffer(whole, np.uint8, nbytes)


def host_pool(layout: Layout, *, dtype: npt.DTypeLike = np.uint8) -> tuple[NumpyPool, DevicePool]:
    """A host tier's pages in pinned memory: as NumPy has them, and as kernels of the current
    device reach them.
    """
    buffer = pinned(layout.nbytes)
    pool = NumpyPool(layout, buffer, dtype=dtype)
    gpu = CupyGpu()
    mapped = over_host(gpu, pool, buffer)
    gpu.synchronize()  # once, as above
    return pool, mapped


def _on(device: int, array: Any) -> Any:
    """An array as CuPy's, which has to be on a device."""
    found = _as_cupy(array)
    if found.device.id != device:
        raise UsageError(f"the array is on GPU {found.device.id}: must be on the pool's, {device}")
    return found


def _as_cupy(array: Any) -> Any:
    """An array of any library as CuPy's, on its device: CuPy would copy it to the current one."""
    if isinstance(array, cupy.ndarray):
        return array
    if (told := getattr(array, "__cuda_array_interface__", None)) is not None:
        with cupy.cuda.Device(_device_of(told["data"][0])):
            return cupy.asarray(array)
    if not hasattr(array, "__dlpack__"):
        raise UsageError(
            f"a {type(array).__name__} has neither __cuda_array_interface__ nor DLPack"
        )
    kind, number = array.__dlpack_device__()
    if int(kind) != 2:
        raise UsageError(f"the array is on device ({int(kind)}, {number}): must be CUDA's")
    try:
        with cupy.cuda.Device(number):
            return cupy.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError) as error:
        raise UsageError(f"CuPy cannot adopt it ({error}): view it as uint8") from error


def _device_of(address: int) -> int:
    """The device that has the memory; the current one for an empty array, which has none."""
    runtime = cupy.cuda.runtime
    return int(runtime.pointerGetAttributes(address).device if address else runtime.getDevice())
