"""Block tables, slot mappings and loans: written into the caller's arrays, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import CapacityError, GroupConfig, KVCacheManager, KVFrameError, UsageError

from .helpers import manager


def three() -> tuple[KVCacheManager, list[int]]:
    """Sequences of 3, 1 and 0 blocks: tables [0, 1, 2], [3] and []."""
    kv = manager(12)
    return kv, [kv.allocate(list(range(n))).seq for n in (9, 4, 0)]


def test_tables_are_padded_and_rows_beyond_are_left_alone() -> None:
    kv, seqs = three()
    out = np.full((5, 4), 99, np.int32)
    kv.block_tables(seqs, out)
    assert out.tolist() == [[0, 1, 2, -1], [3, -1, -1, -1], [-1] * 4, [99] * 4, [99] * 4]
    kv.block_tables(seqs[1:], out, pad=7)
    assert out[:2].tolist() == [[3, 7, 7, 7], [7, 7, 7, 7]]


def test_only_entries_from_start_on_are_written() -> None:
    kv, seqs = three()
    out = np.full((3, 4), 99, np.int32)
    kv.block_tables(seqs, out, start=[1, 1, 9])
    assert out.tolist() == [[99, 1, 2, -1], [99, -1, -1, -1], [99] * 4]
    kv.block_tables(seqs, out, start=np.array([3, 0, 4]), pad=0)
    assert out.tolist() == [[99, 1, 2, 0], [3, 0, 0, 0], [99] * 4]


def test_out_may_be_a_strided_or_transposed_view() -> None:
    kv, seqs = three()
    wide = np.zeros((3, 8), np.int32)
    kv.block_tables(seqs, wide[:, ::2])
    assert wide[:, ::2].tolist() == [[0, 1, 2, -1], [3, -1, -1, -1], [-1] * 4]
    assert not wide[:, 1::2].any()
    tall = np.zeros((3, 3), np.int32)
    kv.block_tables(seqs, tall.T)
    assert tall.T.tolist() == [[0, 1, 2], [3, -1, -1], [-1, -1, -1]]


def test_tables_equal_the_single_ones() -> None:
    kv, seqs = three()
    out = np.zeros((3, 6), np.int32)
    kv.block_tables(seqs, out)
    for row, seq in zip(out, seqs, strict=True):
        table = kv.block_table(seq)
        assert table.dtype == np.int32
        assert row[: len(table)].tolist() == table.tolist()


def test_a_table_handed_out_is_a_copy() -> None:
    kv, seqs = three()
    kv.block_table(seqs[0])[:] = 11
    assert kv.block_table(seqs[0]).tolist() == [0, 1, 2]
    kv.check_integrity()


TABLES: dict[str, tuple[Any, str]] = {
    "too few rows": (np.full((2, 4), 9, np.int32), "3 sequences, but out has 2 rows"),
    "too few columns": (np.full((3, 2), 9, np.int32), "has 3 blocks, but out has 2 columns"),
    "int64": (np.full((3, 4), 9, np.int64), "int32"),
    "one dimension": (np.full(12, 9, np.int32), "dimension"),
    "read-only": (np.broadcast_to(np.int32(9), (3, 4)), "writ"),
    "a list": ([[9] * 4] * 3, "list|array"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_wrong_table_is_refused_unwritten(name: str) -> None:
    out, message = TABLES[name]
    kv, seqs = three()
    with pytest.raises((UsageError, TypeError), match=message):
        kv.block_tables(seqs, out)
    assert (np.array(out) == 9).all()
    kv.check_integrity()


def test_one_bad_handle_leaves_the_whole_table_unwritten() -> None:
    kv, seqs = three()
    out = np.full((3, 4), 9, np.int32)
    for bad in (seqs[0] + (5 << 32), 12345):
        with pytest.raises(KVFrameError, match=str(bad)):
            kv.block_tables([seqs[0], bad], out)
    with pytest.raises(UsageError, match="group = 1"):
        kv.block_tables(seqs, out, group=1)
    with pytest.raises(UsageError, match="start"):
        kv.block_tables(seqs, out, start=[0])
    assert (out == 9).all()


def test_slots_are_block_times_size_plus_offset() -> None:
    kv, seqs = three()
    out = np.full(9, -7, np.int64)
    assert len(kv.slot_mapping(seqs, [2, 0, 0], [4, 3, 0], out)) == 7
    assert out.tolist() == [2, 3, 4, 5, 12, 13, 14, -7, -7]
    assert len(kv.slot_mapping([], [], [], out)) == 0
    assert len(kv.slot_mapping(seqs, [9, 4, 0], [0, 0, 0], out)) == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_tables_one_after_the_other(dtype: Any) -> None:
    kv, seqs = three()
    indptr, blocks = np.full(5, -9, dtype), np.full(6, -9, np.int32)
    assert len(kv.block_tables(seqs, blocks, indptr=indptr)) == 4
    assert indptr.tolist() == [0, 3, 4, 4, -9]
    assert blocks.tolist() == [0, 1, 2, 3, -9, -9]
    assert sorted(kv.inspect.running().tolist()) == sorted(seqs)
    lens = np.zeros(3, dtype)
    kv.block_tables(seqs, seq_lens=lens)
    assert lens.tolist() == [9, 4, 0]
    indptr[:], blocks[:] = 5, 5
    for ends, out in (
        (indptr[:3], blocks),
        (indptr, blocks[:3]),
        (indptr.astype(np.uint8), blocks),
    ):
        with pytest.raises(UsageError):
            kv.block_tables(seqs, out, indptr=ends)  # type: ignore[arg-type]
    with pytest.raises(KVFrameError):
        kv.block_tables([*seqs, 77], blocks, indptr=indptr)
    assert (indptr == 5).all()
    assert (blocks == 5).all()


def test_slots_of_a_ragged_batch_and_where_each_begins() -> None:
    """Queries of 70, 10 and 130 tokens begin at 0, 70 and 80."""
    kv = manager(64)
    seqs = [kv.allocate([i] * n).seq for i, n in enumerate((70, 10, 130))]
    out, indptr = np.zeros(210, np.int64), np.zeros(4, np.int32)
    kv.slot_mapping(seqs, [0, 0, 0], [70, 10, 130], out, indptr=indptr)
    assert indptr.tolist() == [0, 70, 80, 210]
    with pytest.raises(UsageError, match="indptr"):
        kv.slot_mapping(seqs, [0, 0, 0], [70, 10, 130], out, indptr=indptr[:3])


def test_a_table_from_an_entry_on() -> None:
    kv, seqs = three()
    assert kv.block_table(seqs[0], start=1).tolist() == [1, 2]
    assert kv.block_table(seqs[0], start=9).tolist() == []


def test_slots_reach_past_32_bits() -> None:
    kv = manager(2**20, 65536)
    lent = np.zeros(40000, np.int32)
    kv.blocks.take(out=lent)
    seq = kv.allocate([1, 2, 3]).seq
    out = np.zeros(2, np.int64)
    kv.slot_mapping([seq], [1], [2], out)
    assert out.tolist() == [40000 * 65536 + 1, 40000 * 65536 + 2]


SLOTS: dict[str, tuple[Any, str]] = {
    "past what has slots": (([0, 0], [10, 1]), "tokens 0 to 10 asked for, 9 have slots"),
    "start past the end": (([5, 5], [1, 0]), "tokens 5 to 5 asked for, 4 have slots"),
    "too many for out": (([0, 0], [9, 4]), "13 slots, but out holds 12"),
    "counts missing": (([0, 0], [1]), "2 sequences, 2 starts, 1 counts"),
    "negative start": (([0, -1], [1, 1]), r"starts.*-1"),
    "largest": (([2**64 - 1, 0], [2, 1]), "have slots"),
}


@pytest.mark.parametrize("name", SLOTS)
def test_wrong_ranges_are_refused_unwritten(name: str) -> None:
    (starts, counts), message = SLOTS[name]
    kv, seqs = three()
    out = np.full(12, -7, np.int64)
    with pytest.raises(UsageError, match=message):
        kv.slot_mapping(seqs[:2], starts, counts, out)
    assert (out == -7).all()


@pytest.mark.parametrize(
    "out",
    [np.full(4, 9, np.int32), np.full(8, 9)[::2], np.full((2, 2), 9), np.broadcast_to(9, (4,))],
    ids=["int32", "strided", "two dimensions", "read-only"],
)
def test_a_wrong_slot_array_is_refused_unwritten(out: Any) -> None:
    kv, seqs = three()
    with pytest.raises((UsageError, TypeError)):
        kv.slot_mapping(seqs[:1], [0], [2], out)
    assert (out == 9).all()


def test_input_and_output_may_be_one_array() -> None:
    kv, seqs = three()
    both = np.array([5], np.int64)
    assert len(kv.slot_mapping(seqs[:1], both, [1], both)) == 1
    assert both.tolist() == [5]


def test_what_left_a_window_is_minus_one() -> None:
    kv = manager(
        12,
        groups=[
            GroupConfig(name="all"),
            GroupConfig(name="near", kind="sliding_window", window=4),
        ],
    )
    seq = kv.allocate(list(range(12))).seq
    kv.commit(seq, 12)
    near = kv.block_table(seq, 1)
    assert (near >= 0).tolist() == [False, False, True]
    out = np.zeros(12, np.int64)
    kv.slot_mapping([seq], [0], [12], out, group=1)
    assert out[:8].tolist() == [-1] * 8
    assert out[8:].tolist() == [near[2] * 4 + i for i in range(4)]
    assert (kv.block_table(seq, 0) >= 0).all()
    kv.check_integrity()


def test_loans_are_whole_or_none() -> None:
    kv = manager(4)
    kv.allocate([1])
    out = np.full(4, 9, np.int32)
    with pytest.raises(CapacityError, match="needs 4 blocks, but only 3"):
        kv.blocks.take(out=out)
    assert (out == 9).all()
    kv.blocks.take(out=out[:3])
    assert sorted(out[:3].tolist()) == [1, 2, 3]
    assert kv.counts() == (0, 0, 4, 4)
    kv.check_integrity()
    kv.blocks.free(out[:3])
    assert kv.counts() == (3, 0, 1, 4)
    kv.blocks.take(out=np.zeros(0, np.int32))
    kv.blocks.free(np.zeros(0, np.int32))
    kv.check_integrity()


GIVEN: dict[str, tuple[list[int], str]] = {
    "twice in one call": ([1, 2, 1], "free = 1: it is named twice"),
    "never lent": ([1, 3], "free = 3: it was never taken"),
    "a sequence's": ([1, 0], "free = 0: it is not in hand: others own it"),
    "past the pool": ([1, 4], "free = 4: the pool has no such block"),
    "negative": ([1, -1], r"blocks\[1\] = -1"),
    "smallest": ([-(2**31)], r"blocks\[0\] = -2147483648"),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.scenario("IL-B7", "V10", "SA-B9", "I13", "ST34")
def test_a_wrong_return_takes_nothing_back(name: str) -> None:
    ids, message = GIVEN[name]
    kv = manager(4)
    kv.allocate([1])
    lent = np.zeros(2, np.int32)
    kv.blocks.take(out=lent)
    assert lent.tolist() == [1, 2]
    with pytest.raises(UsageError, match=message):
        kv.blocks.free(np.array(ids, np.int32))
    assert kv.counts() == (1, 0, 3, 4)
    kv.check_integrity()
    kv.blocks.free(lent)
    with pytest.raises(UsageError, match=r"free = 2: .*double free"):
        kv.blocks.free(lent)
    assert kv.counts() == (3, 0, 1, 4)
    kv.check_integrity()


@pytest.mark.parametrize(
    "out", [[0, 0], np.zeros(2, np.int64), np.zeros(4, np.int32)[::2], np.zeros((1, 2), np.int32)]
)
def test_a_wrong_array_for_a_loan_lends_nothing(out: Any) -> None:
    kv = manager(4)
    with pytest.raises((UsageError, TypeError)):
        kv.blocks.take(out=out)
    assert kv.counts().free == 4


@pytest.mark.scenario("FE-B1", "FE-6", "SA-1")
def test_block_0_is_a_block_like_any_other() -> None:
    kv = manager(2)
    seq = kv.allocate([1, 2]).seq
    assert kv.block_table(seq).tolist() == [0]
    kv.release(seq)
    assert kv.allocate([3]).granted_tokens == 1


def test_the_null_block_is_nobodys() -> None:
    kv = manager(4, null_block=True)
    seq = kv.allocate(list(range(12))).seq
    assert kv.block_table(seq).tolist() == [1, 2, 3]
    with pytest.raises(CapacityError):
        kv.allocate([1])
    with pytest.raises(UsageError, match="free = 0"):
        kv.blocks.free(np.zeros(1, np.int32))
    kv.check_integrity()
