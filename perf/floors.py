"""Floors: the least that a work can cost here, measured in the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from perf.measure import per_call

ROUNDS = 5


def _best(call: Callable[[], object], calls: int) -> float:
    return min(per_call(call, calls) for _ in range(ROUNDS))


def two_copies_of_64() -> float:
    """Two NumPy calls that each move 64 int32."""
    a, b = np.zeros(64, np.int32), np.ones(64, np.int32)

    def both() -> None:
        np.copyto(a, b)
        np.copyto(b, a)

    return _best(both, 20_000)


def scattered_writes_64() -> float:
    """64 ids copied, and written to 64 scattered places of two columns of 65,536: NumPy calls."""
    places = np.random.default_rng(0).permutation(65_536)[:64]
    ids, table, parents = (np.zeros(n, np.int32) for n in (64, 65_536, 65_536))

    def all_three() -> None:
        np.copyto(ids, 1)
        table[places] = ids
        parents[places] = ids

    return _best(all_three, 10_000)


def one_write() -> float:
    """One NumPy call that writes one place of a column."""
    column, value = np.zeros(65_536, np.int32), np.int32(1)
    return _best(lambda: column.put(77, value), 20_000)


def sha256_blocks(blocks: int) -> float:
    """SHA-256 over two 64-byte compressions a block, in one digest: no call or padding a block."""
    data = bytes(128 * blocks)
    return _best(lambda: hashlib.sha256(data).digest(), 50)


def copy_bytes(size: int) -> float:
    """A copy of ``size`` bytes."""
    a, b = np.zeros(size, np.uint8), np.ones(size, np.uint8)
    return _best(lambda: np.copyto(a, b), 1_000)


def increments(count: int) -> float:
    """One vector increment of ``count`` int64 in place, and a copy of them."""
    a, b = np.zeros(count, np.int64), np.ones(count, np.int64)

    def both() -> None:
        np.add(a, 1, out=a)
        np.copyto(b, a)

    return _best(both, 20_000)
