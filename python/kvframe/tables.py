"""Block tables and slot mappings, written into the caller's arrays.

A part of `kvframe.KVCacheManager`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.request import Handles

Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


class Tables:
    """What attention kernels read of a manager."""

    _core: Core

    def block_table(self, seq: int, group: int = 0, *, start: int = 0) -> npt.NDArray[np.int32]:
        """A sequence's block ids in a group, int32, from entry ``start`` on.

        A block that was given up reads -1, or 0 with ``cache.null_block``.
        """
        table: npt.NDArray[np.int32] = self._core.block_table(seq, group, start)
        return table

    def block_tables(
        self,
        seqs: Handles,
        out: npt.NDArray[np.int32],
        *,
        group: int = 0,
        pad: int = -1,
        start: Handles | None = None,
    ) -> None:
        """Write block tables into the rows of ``out``.

        Args:
            seqs: One sequence a row.
            out: int32 (rows, blocks), large enough for all of them.
            group: Layer group.
            pad: Value of the entries past a table's end.
            start: First entry to write in each row, if the caller kept those before it.
        """
        self._core.block_tables(seqs, out, group=group, pad=pad, start=start)

    def slot_mapping(
        self,
        seqs: Handles,
        starts: Handles,
        counts: Handles,
        out: npt.NDArray[np.int64],
        *,
        group: int = 0,
        indptr: Offsets | None = None,
    ) -> int:
        """Write the slots of tokens ``starts[i]`` to ``starts[i] + counts[i]`` of each sequence.

        Args:
            seqs: Sequences.
            starts: First token of each.
            counts: How many tokens of each.
            out: int64, filled one sequence after the other: block x block size + offset.
            group: Layer group.
            indptr: int32 or int64, one more than there are sequences: filled with where each
                sequence's slots begin in ``out``, and where the last ones end, as attention kernels
                for ragged batches expect it.

        Returns:
            How many slots were written.
        """
        return self._core.slot_mapping(seqs, starts, counts, out, group=group, indptr=indptr)

    def ragged_tables(
        self,
        seqs: Handles,
        indptr: Offsets,
        blocks: npt.NDArray[np.int32],
        *,
        group: int = 0,
    ) -> int:
        """Write block tables one after the other, as kernels for ragged batches expect them.

        Args:
            seqs: Sequences.
            indptr: int32 or int64, one more than there are sequences: table i is
                ``blocks[indptr[i] : indptr[i + 1]]``.
            blocks: int32, filled from its start; given-up blocks read as in `block_table`.
            group: Layer group.

        Returns:
            How many entries were written.
        """
        return self._core.ragged_tables(seqs, indptr, blocks, group=group)

    def seq_lens(self, seqs: Handles, out: Offsets) -> None:
        """Write each sequence's length, counting tokens that have slots, into an integer array.

        Args:
            seqs: Sequences.
            out: int32 or int64, one entry a sequence.
        """
        self._core.seq_lens(seqs, out)

    def live(self) -> npt.NDArray[np.uint64]:
        """Handles of all live sequences, uint64."""
        handles: npt.NDArray[np.uint64] = self._core.live()
        return handles
