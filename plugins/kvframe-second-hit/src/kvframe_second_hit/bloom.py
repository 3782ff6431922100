"""A Bloom filter that forgets: of two generations the older goes once the newer is full.

Bloom, CACM 13(7), 1970. Everything is done for arrays of keys at once.
"""

from __future__ import annotations

from math import ceil, log

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
"""uint64 (n, 2): keys of 128 bits, uniform as hashes are."""


class ForgettingBloom:
    """Remembers at least the last ``capacity`` keys, and at most twice as many.

    Args:
        capacity: Keys of a generation.
        error: The share of keys that a full generation takes for others.
    """

    def __init__(self, capacity: int, error: float) -> None:
        self.capacity = capacity
        bits = ceil(-capacity * log(error) / log(2) ** 2)
        self._mask = np.uint64(2 ** max(6, (bits - 1).bit_length()) - 1)
        self._rows = np.arange(max(1, round(-log(error) / log(2))), dtype=np.uint64)
        self._young = self._empty()
        self._old = self._empty()
        self._count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of both generations."""
        return self._young.nbytes + self._old.nbytes

    def has(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether each key was added lately; now and then it says so of one that was not."""
        places = self._places(keys)
        found: npt.NDArray[np.bool_] = self._in(self._young, places) | self._in(self._old, places)
        return found

    def add(self, keys: Keys) -> None:
        """Remembers the keys."""
        for start in range(0, len(keys), self.capacity):
            part = keys[start : start + self.capacity]
            places = self._places(part)
            fresh = int((~self._in(self._young, places)).sum())
            if self._count + fresh > self.capacity:
                self._young, self._old = self._empty(), self._young
                self._count, fresh = 0, len(part)
            self._count += fresh
            bits = np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)
            np.bitwise_or.at(self._young, places >> np.uint64(3), bits)

    def _empty(self) -> npt.NDArray[np.uint8]:
        return np.zeros((int(self._mask) + 1) // 8, np.uint8)

    def _places(self, keys: Keys) -> npt.NDArray[np.uint64]:
        # Two hashes make as many as are needed (Kirsch and Mitzenmacher, 2006).
        with np.errstate(over="ignore"):
            places: npt.NDArray[np.uint64] = keys[:, :1] + self._rows * (keys[:, 1:] | np.uint64(1))
        return places & self._mask

    def _in(
        self, bits: npt.NDArray[np.uint8], places: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.bool_]:
        of_each = bits[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8)
        whole: npt.NDArray[np.bool_] = (of_each & 1).all(axis=1)
        return whole
