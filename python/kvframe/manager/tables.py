"""Arrays for attention kernels, made where the caller brings none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.errors import UsageError
from kvframe.request import Handles

MOST_SLOTS = 1 << 26
"""Most slots for which kvframe makes the array. No step needs more; callers then give ``out``."""

Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


def slot_count(counts: Handles) -> int:
    """How many slots ``counts`` of `KVCacheManager.slot_mapping` ask for; 0 if they are wrong.

    The core reports what is wrong. Before that, no array of more than `MOST_SLOTS` is made.
    """
    try:
        asked = np.asarray(counts)
    except ValueError:
        return 0
    if asked.dtype.kind not in "iu" or asked.ndim != 1 or not asked.size or asked.min() < 0:
        return 0
    slots = int(asked.sum()) if asked.max() <= MOST_SLOTS else 0
    return slots if slots <= MOST_SLOTS else 0


def slots_of(
    core: Core,
    seqs: Handles,
    starts: Handles,
    counts: Handles,
    out: npt.NDArray[np.int64] | None,
    *,
    group: int,
    indptr: Offsets | None,
) -> npt.NDArray[np.int64]:
    """Write slots; see `KVCacheManager.slot_mapping`."""
    slots = np.empty(slot_count(counts), np.int64) if out is None else out
    return slots[: core.slot_mapping(seqs, starts, counts, slots, group=group, indptr=indptr)]


def all_tables(
    core: Core,
    seqs: Handles,
    out: npt.NDArray[np.int32] | None,
    group: int,
    *,
    pad: int,
    start: Handles | None,
    indptr: Offsets | None,
) -> npt.NDArray[np.int32]:
    """Write block tables; see `KVCacheManager.block_tables`.

    Raises:
        UsageError: ``start`` with ``indptr``.
    """
    if indptr is None:
        return in_rows(core, seqs, out, group=group, pad=pad, start=start)
    if start is not None:
        raise UsageError("start: only for tables in rows, not with indptr")
    return one_after_another(core, seqs, out, indptr, group=group)


def in_rows(
    core: Core,
    seqs: Handles,
    out: npt.NDArray[np.int32] | None,
    *,
    group: int,
    pad: int,
    start: Handles | None,
) -> npt.NDArray[np.int32]:
    """Write a block table a row; see `KVCacheManager.block_tables`."""
    rows = widest(core, seqs, group) if out is None else out
    core.block_tables(seqs, rows, group=group, pad=pad, start=start)
    return rows


def one_after_another(
    core: Core,
    seqs: Handles,
    out: npt.NDArray[np.int32] | None,
    indptr: Offsets,
    *,
    group: int,
) -> npt.NDArray[np.int32]:
    """Write block tables into one dimension; returns the part that they fill."""
    flat = ragged(core, seqs, group) if out is None else out
    return flat[: core.ragged_tables(seqs, indptr, flat, group=group)]


def widest(core: Core, seqs: Handles, group: int) -> npt.NDArray[np.int32]:
    """Make an array with a row for the block table of each sequence."""
    lengths = _lengths(core, seqs, group)
    return np.empty((len(lengths), max(lengths, default=0)), np.int32)


def ragged(core: Core, seqs: Handles, group: int) -> npt.NDArray[np.int32]:
    """Make an array that holds the block tables of the sequences one after the other."""
    return np.empty(sum(_lengths(core, seqs, group)), np.int32)


def _lengths(core: Core, seqs: Handles, group: int) -> list[int]:
    return [len(core.block_table(seq, group, 0)) for seq in _handles(seqs)]


def _handles(seqs: Handles) -> list[Any]:
    """The handles as a list; empty if they are wrong, because the core will report that."""
    right = isinstance(seqs, list | tuple) or (isinstance(seqs, np.ndarray) and seqs.ndim == 1)
    return list(seqs) if right else []
