"""Arrays for attention kernels, made where the caller brings none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.request import Handles

Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


def slot_count(counts: Handles) -> int:
    """How many slots ``counts`` of `KVCacheManager.slot_mapping` ask for."""
    asked = np.asarray(counts)
    # What is wrong with them is the core's to say.
    right = asked.dtype.kind in "iu" and asked.ndim == 1 and asked.size and asked.min() >= 0
    return int(asked.sum()) if right else 0


def widest(core: Core, seqs: Handles, group: int) -> npt.NDArray[np.int32]:
    """An array in which the block table of each sequence has a row."""
    return np.empty((len(seqs), max(_lengths(core, seqs, group), default=0)), np.int32)


def ragged(core: Core, seqs: Handles, group: int) -> npt.NDArray[np.int32]:
    """An array for the block tables one after the other."""
    return np.empty(sum(_lengths(core, seqs, group)), np.int32)


def _lengths(core: Core, seqs: Handles, group: int) -> list[int]:
    each: Any = seqs
    return [len(core.block_table(seq, group, 0)) for seq in each]
