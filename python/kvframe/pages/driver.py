"""Calls of the CUDA driver that CuPy does not have."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def function(*names: str) -> tuple[str, Any] | None:
    """The first of some functions that the driver has, with its name; None if it has none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    found = ((name, getattr(driver, name, None)) for name in names)
    return next(((name, call) for name, call in found if call is not None), None)


def allocated(address: int) -> range:
    """The addresses of the allocation that holds an address; empty if the driver does not say."""
    if (found := function("cuMemGetAddressRange_v2")) is None:
        return range(0)
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    code = found[1](ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
    return range(base.value, base.value + size.value) if code == 0 else range(0)
