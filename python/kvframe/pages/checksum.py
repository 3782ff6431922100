"""Checksums of pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError

SHARE = 16 << 20
"""Bytes that are worth a thread: 1 to 2 ms. A long prompt has a gigabyte of pages, which one thread
would read for longer than a bus takes to copy them."""

THREADS = min(8, (os.cpu_count() or 1) // 2)
"""Most threads; the other cores are the engine's."""


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
        import xxhash  # noqa: F401 - an error here names what to install
    except ImportError as error:
        raise ImportError("checksums need xxhash: pip install xxhash") from error
    rows = [*ids]
    threads = min(THREADS, len(rows) * pages.nbytes // max(len(pages), 1) // SHARE)
    if threads < 2:
        return np.array(_digests(pages, rows), np.uint64)
    each = -(-len(rows) // threads)
    shares = [rows[at : at + each] for at in range(0, len(rows), each)]
    # xxhash lets other threads run meanwhile. A pool that lives on would not outlive a fork.
    with ThreadPoolExecutor(threads, "kvframe-checksum") as pool:
        return np.concatenate(
            [np.array(found, np.uint64) for found in pool.map(partial(_digests, pages), shares)]
        )


def _digests(pages: npt.NDArray[np.uint8], rows: Sequence[int]) -> list[int]:
    from xxhash import xxh3_64_intdigest

    return [xxh3_64_intdigest(memoryview(pages[row])) for row in rows]


def differing(
    ids: npt.NDArray[np.int64], found: npt.NDArray[np.uint64], sums: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """The ids whose checksum is another."""
    if np.shape(sums) != found.shape:
        raise UsageError(f"checksums of shape {np.shape(sums)}: must be {found.shape}")
    bad: npt.NDArray[np.int64] = ids[found != sums]
    return bad
