"""A package of policies as an author writes them, for engines to load: lru, written in two ways.

The compiled ones are of ``tests/native/lru.c``, built as ``GUEST_LIBRARY``.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from kvframe import EvictionPolicy, hookimpl
from kvframe.native import CAPSULE, NativePolicy
from kvframe.policies import BatchedEviction, Candidates


class Batched(BatchedEviction):
    """In Python, by the core's own column; candidates come tail first where that is equal."""

    columns = ("last_use",)
    window = 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = candidates["last_use"]


NAME = CAPSULE.encode()


def native(symbol: str, options: None) -> NativePolicy:
    """A table of the library, in a capsule."""
    library = ctypes.CDLL(os.environ["GUEST_LIBRARY"])
    address = ctypes.addressof(ctypes.c_char.in_dll(library, symbol))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return NativePolicy(new(address, NAME, None))


@hookimpl
def kvframe_eviction() -> Iterator[EvictionPolicy]:
    """One in Python, one compiled that scores, one compiled that names victims."""
    yield EvictionPolicy(
        name="guest-batched", way="batched", summary="lru", make=lambda _: Batched()
    )
    for name, symbol in {"guest-column": "column", "guest-order": "order"}.items():
        yield EvictionPolicy(name=name, way="native", summary="lru", make=partial(native, symbol))
