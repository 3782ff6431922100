"""Many copies in one call of the driver: ``cuMemcpyBatchAsync`` (CUDA 12.8 and newer).

CuPy does not have this call yet. In CUDA 13 it has lost the argument for the place of a failure. A
driver of CUDA 13 has both forms, the older one under the old name.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.pages.driver import function

Addresses = npt.NDArray[np.uint64]
"""Contiguous."""

_STREAM_ORDER = 1
_OLD, _NEW = "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"


class _Attributes(ctypes.Structure):
    """``CUmemcpyAttributes``: sources are read in stream order, and no location hints are given."""

    _fields_ = (
        ("order", ctypes.c_int),
        ("source", ctypes.c_int * 2),
        ("target", ctypes.c_int * 2),
        ("flags", ctypes.c_uint),
    )


def _call() -> tuple[str, Any] | None:
    return function(_NEW, _OLD)


def available() -> bool:
    """Whether this driver has it."""
    return _call() is not None


def copy(targets: Addresses, sources: Addresses, sizes: Addresses, stream: int) -> None:
    """Queue copies.

    Args:
        targets: Where each goes, on the device or in pinned host memory.
        sources: Where each comes from.
        sizes: Bytes of each.
        stream: Not the default stream, which the driver refuses here.

    Raises:
        RuntimeError: The driver has no such call, or refused it.
    """
    if (found := _call()) is None:
        raise RuntimeError(f"this driver has no {_OLD}: CUDA 12.8 has")
    name, run = found
    count = len(targets)
    attributes, first = _Attributes(order=_STREAM_ORDER), ctypes.c_size_t(0)
    arguments = [
        *(ctypes.c_void_p(each.ctypes.data) for each in (targets, sources, sizes)),
        ctypes.c_size_t(count),
        ctypes.byref(attributes),
        ctypes.byref(first),
        ctypes.c_size_t(1),
    ]
    if name == _OLD:  # it takes an address for the index of a copy that failed
        arguments.append(ctypes.byref(ctypes.c_size_t(0)))
    if code := run(*arguments, ctypes.c_void_p(stream)):
        raise RuntimeError(f"{_OLD} of {count} copies, {sizes.sum()} bytes: CUDA error {code}")
