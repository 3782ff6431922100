"""Checksums of pages."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError


def checksums(pages: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """XXH3 (64 bits) of each row.

    Raises:
        ImportError: The package xxhash is not there.
    """
    pages = np.ascontiguousarray(pages)
    return checksums_at(pages, range(len(pages)))


def checksums_at(pages: npt.NDArray[np.uint8], ids: Iterable[int]) -> npt.NDArray[np.uint64]:
    """XXH3 (64 bits) of some rows, without a copy of them.

    Raises:
        ImportError: As there.
    """
    try:
        import xxhash
    except ImportError as error:
        raise ImportError("checksums need xxhash: pip install xxhash") from error
    return np.array([xxhash.xxh3_64_intdigest(memoryview(pages[row])) for row in ids], np.uint64)


def differing(
    ids: npt.NDArray[np.int64], found: npt.NDArray[np.uint64], sums: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """The ids whose checksum is another."""
    if np.shape(sums) != found.shape:
        raise UsageError(f"checksums of shape {np.shape(sums)}: must be {found.shape}")
    bad: npt.NDArray[np.int64] = ids[found != sums]
    return bad
