"""Arrays for kernels: made where the caller brings none, refused by the core's words where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvframe import CapacityError, GroupConfig, HandleError, KVCacheManager, NeverFitsError
from kvframe import UsageError as Wrong

from .helpers import manager, state


def two(**options: Any) -> tuple[KVCacheManager, list[int]]:
    kv = manager(16, **options)
    return kv, [kv.allocate(range(at, at + length)).seq for at, length in ((0, 10), (50, 3))]


def test_tables_in_rows_are_made_as_wide_as_the_longest() -> None:
    kv, seqs = two()
    lengths = np.zeros(2, np.int32)
    rows = kv.block_tables(seqs, seq_lens=lengths)
    assert rows.dtype == np.int32
    assert (rows.shape, lengths.tolist()) == ((2, 3), [10, 3])
    assert rows[0].tolist() == kv.block_table(seqs[0]).tolist()
    assert rows[1].tolist() == [*kv.block_table(seqs[1]).tolist(), -1, -1]
    assert kv.block_tables(np.array(seqs, np.uint64), pad=0)[1, 1:].tolist() == [0, 0]
    assert kv.block_tables([]).shape == (0, 0)
    given = np.full((3, 4), 7, np.int32)
    assert kv.block_tables(seqs, given) is given
    assert given[2].tolist() == [7] * 4


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ragged_tables_are_made_as_long_as_they_are(dtype: Any) -> None:
    kv, seqs = two()
    indptr, lengths = np.zeros(3, dtype), np.zeros(2, dtype)
    flat = kv.block_tables(seqs, indptr=indptr, seq_lens=lengths)
    assert (indptr.tolist(), lengths.tolist()) == ([0, 3, 4], [10, 3])
    assert flat.tolist() == [*kv.block_table(seqs[0]), *kv.block_table(seqs[1])]
    given = np.zeros(9, np.int32)
    assert np.shares_memory(kv.block_tables(seqs, given, indptr=indptr), given)
    assert kv.block_tables([], indptr=np.zeros(1, dtype)).tolist() == []


def test_tables_of_each_group() -> None:
    window = GroupConfig(name="window", kind="sliding_window", window=5)
    kv, seqs = two(groups=[GroupConfig(name="full"), window])
    for group in (0, 1):
        flat = kv.block_tables(seqs, group=group, indptr=np.zeros(3, np.int32))
        assert flat.tolist() == [b for seq in seqs for b in kv.block_table(seq, group)]
        slots = kv.slot_mapping(seqs, [1, 0], [2, 1], group=group)
        first = [kv.block_table(seq, group)[0] * 4 for seq in seqs]
        assert slots.tolist() == [first[0] + 1, first[0] + 2, first[1]]


def test_slots_are_made_as_many_as_are_asked_for() -> None:
    kv, seqs = two()
    indptr = np.zeros(3, np.int32)
    slots = kv.slot_mapping(seqs, [8, 0], np.array([2, 3], np.uint8), indptr=indptr)
    assert slots.dtype == np.int64
    assert indptr.tolist() == [0, 2, 5]
    last, only = kv.block_table(seqs[0])[2] * 4, kv.block_table(seqs[1])[0] * 4
    assert slots.tolist() == [last, last + 1, only, only + 1, only + 2]
    assert kv.slot_mapping([], [], []).tolist() == []
    given = np.full(8, -7, np.int64)
    assert kv.slot_mapping(seqs[:1], [0], [1], given).tolist() == [0]
    assert given[1:].tolist() == [-7] * 7


Ask = Callable[[KVCacheManager, list[int]], object]
ASKED: dict[str, tuple[Ask, str]] = {
    "a handle alone": (lambda kv, s: kv.block_tables(s[0]), "seqs"),  # type: ignore[arg-type]
    "none": (lambda kv, s: kv.block_tables(None), "seqs"),  # type: ignore[arg-type]
    "a generator": (lambda kv, s: kv.block_tables(x for x in s), "seqs"),  # type: ignore[arg-type]
    "a text": (lambda kv, s: kv.block_tables("ab"), "seqs"),  # type: ignore[arg-type]
    "two axes": (lambda kv, s: kv.block_tables(np.array([s], np.uint64)), "seqs"),
    "floats": (lambda kv, s: kv.block_tables([1.5]), "1.5"),  # type: ignore[list-item]
    "no group": (lambda kv, s: kv.block_tables(s, group=3), "group = 3"),
    "a short list of starts": (lambda kv, s: kv.block_tables(s, start=[1]), "start has 1"),
    "narrow": (lambda kv, s: kv.block_tables(s, np.zeros((2, 1), np.int32)), "1 columns"),
    "few rows": (lambda kv, s: kv.block_tables(s, np.zeros((1, 9), np.int32)), "1 rows"),
    "a list": (lambda kv, s: kv.block_tables(s, [0]), "int32"),  # type: ignore[arg-type]
    "starts of ragged tables": (
        lambda kv, s: kv.block_tables(s, start=[0, 0], indptr=np.zeros(3, np.int32)),
        "start: only for tables in rows",
    ),
    "short offsets": (lambda kv, s: kv.block_tables(s, indptr=np.zeros(2, np.int32)), "indptr"),
    "a handle with offsets": (
        lambda kv, s: kv.block_tables(s[0], indptr=np.zeros(2, np.int32)),  # type: ignore[arg-type]
        "seqs",
    ),
    "offsets of floats": (
        lambda kv, s: kv.block_tables(s, indptr=np.zeros(3)),  # type: ignore[arg-type]
        "indptr must be",
    ),
    "a short flat array": (
        lambda kv, s: kv.block_tables(s, np.zeros(3, np.int32), indptr=np.zeros(3, np.int32)),
        "4 entries, but out holds 3",
    ),
    "short lengths": (lambda kv, s: kv.block_tables(s, seq_lens=np.zeros(1, np.int32)), "seq_lens"),
    "past the slots": (lambda kv, s: kv.slot_mapping(s[:1], [1], [99]), "1 to 100 asked for"),
    "slots without end": (lambda kv, s: kv.slot_mapping(s[:1], [1], [2**62]), "asked for"),
    "slots of two without end": (lambda kv, s: kv.slot_mapping(s, [1, 1], [2**63] * 2), "asked"),
    "gigabytes": (lambda kv, s: kv.slot_mapping(s[:1], [0], [2**32 - 2]), "asked for"),
    "less than none": (lambda kv, s: kv.slot_mapping(s[:1], [0], [-3]), r"counts\[0\] = -3"),
    "uneven counts": (
        lambda kv, s: kv.slot_mapping(s, [0, 0], [[1], [1, 2]]),  # type: ignore[list-item]
        "counts",
    ),
    "no counts": (lambda kv, s: kv.slot_mapping(s, [0, 0], None), "counts"),  # type: ignore[arg-type]
    "other numbers": (lambda kv, s: kv.slot_mapping(s, [0, 0], [1]), "must be as many"),
    "few slots": (lambda kv, s: kv.slot_mapping(s[:1], [0], [3], np.zeros(2, np.int64)), "holds 2"),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_wrong_is_told_in_a_typed_error(name: str) -> None:
    kv, seqs = two()
    ask, message = ASKED[name]
    with pytest.raises(Wrong, match=message):
        ask(kv, seqs)


def test_lengths_are_written_only_where_tables_are() -> None:
    kv, seqs = two()
    lengths = np.full(2, -1, np.int32)
    with pytest.raises(Wrong):
        kv.block_tables(seqs, group=3, seq_lens=lengths)
    with pytest.raises(HandleError):
        kv.block_tables([99], seq_lens=lengths)
    assert lengths.tolist() == [-1, -1]


# --- lookahead ------------------------------------------------------------------------------------


def test_lookahead_is_counted_behind_the_length() -> None:
    kv = manager(16)
    seq = kv.allocate(range(10), chunk=4).seq
    kv.extend(seq, 6, lookahead=2)
    assert kv.lengths(seq)[:2] == (10, 8), "known tokens come first"
    kv.extend(seq, 10, lookahead=np.uint8(3))  # type: ignore[arg-type]
    assert kv.lengths(seq)[:2] == (13, 13)
    kv.truncate(seq, 10)
    kv.extend(seq, 10, lookahead=0)
    assert kv.lengths(seq)[:2] == (10, 10)
    kv.check_integrity()


def test_small_integers_of_numpy_do_not_wrap_around() -> None:
    kv = manager(80)
    seq = kv.allocate(range(250)).seq
    kv.extend(seq, np.uint8(250), lookahead=np.uint8(10))  # type: ignore[arg-type]
    assert kv.lengths(seq).slots == 260


@pytest.mark.parametrize(
    "bad", [-1, 1.5, "x", None, 2**32, 2**70, np.float32(1), np.timedelta64(2)]
)
def test_lookahead_is_a_number_of_tokens(bad: Any) -> None:
    kv = manager(16)
    seq = kv.allocate(range(6)).seq
    was = state(kv, [seq])
    with pytest.raises(Wrong, match="lookahead = "):
        kv.extend(seq, 6, lookahead=bad)
    assert state(kv, [seq]) == was


@pytest.mark.parametrize("bad", [-1, -3, 1.5, "x", None, 2**32])
@pytest.mark.parametrize("lookahead", [0, 2, 9])
def test_a_length_is_checked_with_lookahead_too(bad: Any, lookahead: int) -> None:
    kv = manager(16)
    seq = kv.allocate(range(6)).seq
    with pytest.raises(Wrong, match="until = "):
        kv.extend(seq, bad, lookahead=lookahead)
    assert kv.lengths(seq)[:2] == (6, 6)


def test_lookahead_begins_where_tokens_are_known() -> None:
    kv = manager(16)
    seq = kv.allocate(range(6)).seq
    with pytest.raises(Wrong, match="extend = 8: only 6 tokens are known"):
        kv.extend(seq, 8, lookahead=2)
    with pytest.raises(Wrong, match="lookahead = 4294967295: must be at most 4294967289"):
        kv.extend(seq, 6, lookahead=2**32 - 1)
    with pytest.raises(NeverFitsError):
        kv.extend(seq, 6, lookahead=64)
    kv.blocks.take(14)
    with pytest.raises(CapacityError):
        kv.extend(seq, 6, lookahead=3)
    assert kv.lengths(seq)[:2] == (6, 6)


# --- blocks taken one by one ----------------------------------------------------------------------


def test_blocks_are_taken_into_an_array_or_its_front() -> None:
    kv = manager()
    assert kv.blocks.take(2).tolist() == [0, 1]
    out = np.full(3, -1, np.int32)
    assert kv.blocks.take(1, out=out).tolist() == [2]
    assert out.tolist() == [2, -1, -1]
    assert kv.blocks.take(out=out) is out
    assert out.tolist() == [3, 4, 5]
    assert kv.blocks.take(0).tolist() == kv.blocks.take(0, out=out).tolist() == []
    with pytest.raises(CapacityError, match="needs 3 blocks, but only 2"):
        kv.blocks.take(3)
    with pytest.raises(CapacityError, match="needs 1099511627776 blocks"):
        kv.blocks.take(2**40)
    assert kv.blocks.available() == 2


@pytest.mark.parametrize("count", [None, -1, 1.5, "x", [1]])
def test_a_count_of_blocks_is_a_number(count: Any) -> None:
    with pytest.raises(Wrong, match=r"count = .*: must be an integer of at least 0"):
        manager().blocks.take(count)


@pytest.mark.parametrize("count", [None, 1])
@pytest.mark.parametrize(
    "out",
    [
        5,
        [1, 2],
        np.zeros(2, np.int64),
        np.zeros((2, 2), np.int32),
        np.array(5, np.int32),
        np.broadcast_to(np.int32(1), 2),
    ],
)
def test_blocks_are_taken_into_int32_alone(count: int | None, out: Any) -> None:
    kv = manager()
    with pytest.raises(Wrong, match=r"out must be|room in out"):
        kv.blocks.take(count, out=out)
    assert kv.counts().free == 8


def test_why_a_block_cannot_be_freed() -> None:
    kv = manager()
    seq = kv.allocate(range(4)).seq
    (block,) = kv.blocks.take(1).tolist()
    told: dict[str, Any] = {
        "it is named twice: a double free": [block, block],
        "it is not in hand: others own it": kv.block_table(seq),
        "it was never taken": [7],
        "the pool has no such block": [99],
    }
    for message, blocks in told.items():
        with pytest.raises(Wrong, match=message):
            kv.blocks.free(blocks)
    with pytest.raises(Wrong, match="a stale id"):
        kv.blocks.free([block], [77])
    kv.blocks.free([block])
    with pytest.raises(Wrong, match="it is not in hand: a double free"):
        kv.blocks.free([block])
    kv.check_integrity()


def test_single_blocks_beside_several_layer_groups() -> None:
    """Keys name blocks of the first group; a prompt is cached once all groups have its blocks."""
    window = GroupConfig(name="window", kind="sliding_window", window=8)
    kv = manager(32, groups=[GroupConfig(name="full"), window])
    pool, prompt = kv.blocks, list(range(9))
    keys, hand = pool.hash_blocks(prompt), pool.take(2)
    assert pool.publish(int(hand[0]), keys[0]) is None
    assert pool.publish(int(hand[1]), keys[1], int(hand[0])) is None
    assert pool.find(keys).tolist() == hand.tolist()
    assert kv.lookup(prompt).tokens == 0, "the window group has nothing"
    pool.free(hand)
    kv.check_integrity()
    seq = kv.allocate(range(50, 59)).seq
    kv.commit(seq, 9)
    found = pool.find(pool.hash_blocks(range(50, 59)))
    assert found.tolist() == kv.block_table(seq, 0)[:2].tolist()
    pool.touch(found)
    kv.release(seq)
    with pytest.raises(Wrong, match="free"):
        pool.free([int(kv.blocks.take(1)[0]), 31])
    pool.free(found)
    for wrong in (lambda: pool.owners(99), lambda: pool.publish(99, keys[0])):
        with pytest.raises(Wrong):
            wrong()
    kv.check_integrity()
