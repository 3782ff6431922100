"""Token ids in: which buffers are taken, and what is said of those that are not."""

from __future__ import annotations

import array
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, MMItem, Request, RouterIndex, UsageError

from .helpers import manager, state

IDS = [7, 0, 2**32 - 1, 5, 5, 5, 5, 5, 1]
SMALL = [7, 0, 3, 5, 5, 5, 5, 5, 1]


def strided(ids: list[int], dtype: Any) -> np.ndarray[Any, Any]:
    wide = np.zeros((len(ids), 3), dtype)
    wide[:, 1] = ids
    return wide[:, 1]


def unaligned(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """As `np.frombuffer` gives them, where a message has a byte before them."""
    data = np.array(values, dtype)
    view: np.ndarray[Any, Any] = np.zeros(data.nbytes + 16, np.uint8)[1:-15].view(dtype)
    view[:] = data
    assert not view.flags.aligned
    return view


TAKEN = {
    "uint32": np.array(SMALL, np.uint32),
    "int32": np.array(SMALL, np.int32),
    "int64": np.array(SMALL, np.int64),
    "uint64": np.array(SMALL, np.uint64),
    "uint16": np.array(SMALL, np.uint16),
    "int8": np.array(SMALL, np.int8),
    "big endian": np.array(SMALL, ">u4"),
    "unaligned uint32": unaligned(SMALL, np.uint32),
    "unaligned int64": unaligned(SMALL, np.int64),
    "strided uint32": strided(SMALL, np.uint32),
    "strided int32": strided(SMALL, np.int32),
    "strided int64": strided(SMALL, np.int64),
    "reversed view": np.array(SMALL[::-1], np.uint32)[::-1],
    "read-only": np.frombuffer(np.array(SMALL, np.uint32).tobytes(), np.uint32),
    "list": SMALL,
    "tuple": tuple(SMALL),
    "array": array.array("i", SMALL),
    "memoryview": memoryview(array.array("I", SMALL)),
    "list of numpy scalars": [np.int16(i) for i in SMALL],
}


@pytest.mark.parametrize("name", TAKEN)
def test_every_integer_buffer_means_the_same(name: str) -> None:
    kv = manager()
    ids: Any = TAKEN[name]
    assert np.array_equal(
        kv.blocks.hash_blocks(ids), kv.blocks.hash_blocks(np.array(SMALL, np.uint32))
    )
    grant = kv.allocate(ids)
    assert (grant.granted_tokens, grant.prompt_tokens) == (9, 9)
    kv.commit(grant.seq, 9)
    kv.release(grant.seq)
    assert kv.lookup(ids).tokens == 8
    assert kv.allocate(SMALL).cached_tokens == 8
    kv.check_integrity()


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.uint64])
def test_ids_reach_to_the_last_of_32_bits(dtype: Any) -> None:
    kv = manager()
    assert np.array_equal(kv.blocks.hash_blocks(np.array(IDS, dtype)), kv.blocks.hash_blocks(IDS))


@pytest.mark.parametrize(
    "nothing", [[], (), np.array([], np.uint32), np.array([], np.int64), np.array([])]
)
@pytest.mark.scenario("MK-10")
def test_an_empty_prompt_is_a_prompt(nothing: Any) -> None:
    kv = manager()
    grant = kv.allocate(nothing)
    assert grant[1:4] == (0, 0, 0)
    assert kv.counts().free == 8
    assert kv.block_table(grant.seq).shape == (0,)
    kv.append(grant.seq, nothing)
    kv.append(grant.seq, [3])
    assert kv.block_table(grant.seq).tolist() == [0]
    assert kv.blocks.hash_blocks(nothing).shape == (0, 2)
    assert kv.lookup(nothing).tokens == 0


WRONG: dict[str, tuple[Any, str]] = {
    "negative int64": (np.array([1, 2, -5]), r"prompt\[2\] = -5: must be between 0 and 4294967295"),
    "negative int32": (np.array([-1, 2], np.int32), r"prompt\[0\] = -1: must be between 0"),
    "negative in a list": ([1, -3], r"prompt\[1\] = -3: must be between 0"),
    "strided and negative": (np.array([1, 0, -7, 0])[::2], r"prompt\[1\] = -7: must be between 0"),
    "too large": ([4, 2**32], r"prompt\[1\] = 4294967296: must be between 0 and 4294967295"),
    "largest uint64": (np.array([2**64 - 1], np.uint64), r"prompt\[0\] = 18446744073709551615: "),
    "past 64 bits": ([2**64], r"prompt"),
    "float": (np.array([1.0, 2.0]), r"prompt must be .* not float64 of shape \(2,\)"),
    "float in a list": ([1, 2.5], r"prompt must be .* not float64"),
    "bool": (np.array([True]), r"prompt must be .* not bool"),
    "two dimensions": (np.zeros((2, 3), np.uint32), r"prompt must be .* shape \(2, 3\)"),
    "a scalar": (np.uint32(4), r"prompt must be .* shape \(\)"),
    "text": ("1 2 3", r"prompt must be"),
    "bytes": (b"abc", r"prompt must be"),
    "a dict": ({1: 2}, r"prompt must be"),
    "rows of unequal length": ([[1], [1, 2]], r"prompt must be .* not \[\[1\], \[1, 2\]\]"),
    "complex": (np.array([1j]), r"prompt must be"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("verb", ["allocate", "lookup", "blocks.hash_blocks"])
def test_what_is_no_token_id_is_refused_with_index_and_value(name: str, verb: str) -> None:
    ids, message = WRONG[name]
    kv = manager()
    before = state(kv)
    with pytest.raises(UsageError, match=message):
        attrgetter(verb)(kv)(ids)
    assert state(kv) == before
    kv.check_integrity()


@pytest.mark.parametrize("name", WRONG)
def test_append_and_step_refuse_the_same(name: str) -> None:
    ids, message = WRONG[name]
    kv = manager()
    seq = kv.allocate(SMALL).seq
    before = state(kv, [seq])
    with pytest.raises(UsageError, match=message.replace("prompt", "tokens")):
        kv.append(seq, ids)
    with pytest.raises(UsageError, match=message.replace("prompt", r"(tokens|ids)")):
        kv.step(append=[seq], counts=[2], tokens=ids)
    assert state(kv, [seq]) == before


BUFFERS: dict[str, Callable[[list[int]], Any]] = {
    "uint32": lambda ids: np.array(ids, np.uint32),
    "int32": lambda ids: np.array(ids, np.int32),
    "int64": lambda ids: np.array(ids, np.int64),
    "strided": lambda ids: np.repeat(np.array(ids, np.uint32), 2)[::2],
    "list": list,
}


def overwrite(ids: Any) -> None:
    """As an engine fills the same buffer for its next step."""
    for i in range(len(ids)):
        ids[i] = 77


@pytest.mark.scenario("MK-B9")
@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("way", ["append", "step", "fill"])
def test_the_callers_array_is_neither_kept_nor_written(kind: str, way: str) -> None:
    buffer = BUFFERS[kind]
    kv = manager()
    # Room behind the prompt, into which a growing slice would run.
    whole = buffer(list(range(100, 116)))
    seq = kv.allocate(whole[:9]).seq
    more = buffer([9, 9, 9])
    if way == "append":
        kv.append(seq, more)
    elif way == "step":
        kv.step(append=[seq], counts=[3], tokens=more)
    else:
        kv.append_placeholders(seq, 3)
        kv.fill_placeholders(seq, more)
    assert list(whole) == list(range(100, 116))
    assert list(more) == [9, 9, 9]
    overwrite(whole)
    overwrite(more)
    assert np.asarray(kv.preempt(seq).prompt).tolist() == [*range(100, 109), 9, 9, 9]
    seq = kv.allocate([*range(100, 109), 9, 9, 9]).seq
    kv.commit(seq, 12)
    kv.release(seq)
    assert kv.lookup([*range(100, 109), 9, 9, 9, 0]).tokens == 12
    assert kv.lookup([77] * 13).tokens == 0


@pytest.mark.scenario("MK-B9")
def test_a_request_and_its_forks_have_tokens_of_their_own() -> None:
    kv = manager(16)
    ids, keys = np.arange(12, dtype=np.uint32), manager().blocks.hash_blocks(list(range(12)))
    request = Request(ids, keys=keys, mm_items=[MMItem(4, 6, b"item")])
    overwrite(ids)
    keys[:] = 0
    first, second = kv.allocate(request).seq, kv.allocate(request).seq
    fork = kv.fork(first)
    kv.append(first, [1, 1, 1, 1])
    kv.append(fork, [2, 2, 2, 2])
    for seq, tail in ((first, [1] * 4), (fork, [2] * 4), (second, [])):
        assert np.asarray(kv.preempt(seq).prompt).tolist() == [*range(12), *tail]


@pytest.mark.parametrize(
    "handles",
    [
        lambda seq: [seq],
        lambda seq: (seq,),
        lambda seq: np.array([seq], np.uint64),
        lambda seq: np.array([seq], np.int64),
        lambda seq: unaligned([seq], np.uint64),
        lambda seq: unaligned([seq], np.int64),
        lambda seq: np.array([seq, 0], np.int64)[::2],
        lambda seq: np.array([seq, 0], np.uint64)[::2],
    ],
)
def test_handles_come_as_arrays_or_lists(handles: Any) -> None:
    kv = manager()
    seq = kv.allocate(SMALL).seq
    out = np.zeros((1, 3), np.int32)
    kv.block_tables(handles(seq), out)
    assert out.tolist() == [[0, 1, 2]]
    assert kv.step(append=handles(seq), tokens=[4]).refused == []
    assert kv.lengths(seq).slots == 10


def test_what_lies_between_words_is_read_as_it_is() -> None:
    kv, out = manager(), np.zeros(2, np.int32)
    keys = unaligned(kv.blocks.hash_blocks(SMALL).ravel(), np.uint64).reshape(-1, 2)
    request = Request(None, keys=keys, num_tokens=9)
    kv.commit(kv.allocate(request).seq, 8)
    assert kv.lookup(SMALL).tokens == 8
    kv.blocks.take(out=out)
    kv.blocks.free(unaligned(out, np.int32))
    index = RouterIndex()
    index.add_worker(1)
    assert index.stored(1, unaligned([5, 6], np.uint64)) == 2
    assert index.match_hashes(unaligned([5, 6], np.uint64))[1].gpu == 2


WRITES: dict[str, tuple[Any, Callable[[KVCacheManager, int, Any], Any]]] = {
    "tables": (np.int32, lambda kv, seq, out: kv.block_tables([seq], out.reshape(2, 4))),
    "ragged": (
        np.int32,
        lambda kv, seq, out: kv.block_tables([seq], out, indptr=np.zeros(2, np.int32)),
    ),
    "slots": (np.int64, lambda kv, seq, out: kv.slot_mapping([seq], [0], [8], out)),
    "indptr": (
        np.int32,
        lambda kv, seq, out: kv.block_tables([seq], np.zeros(8, np.int32), indptr=out),
    ),
    "lengths": (np.int64, lambda kv, seq, out: kv.block_tables([seq], seq_lens=out)),
    "loans": (np.int32, lambda kv, seq, out: kv.blocks.take(out=out[:1])),
    "step": (
        np.int32,
        lambda kv, seq, out: kv.step(append=[seq], tokens=[1], tables=out.reshape(1, 8)),
    ),
    "step slots": (np.int64, lambda kv, seq, out: kv.step(append=[seq], tokens=[1], slots=out)),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_cannot_be_written_in_words_is_refused(name: str) -> None:
    kv = manager()
    seq = kv.allocate(SMALL).seq
    before = state(kv, [seq])
    dtype, write = WRITES[name]
    out = unaligned([9] * 8, dtype)
    with pytest.raises(UsageError, match=r"must be a writable .*, unaligned"):
        write(kv, seq, out)
    assert (out == 9).all()
    assert state(kv, [seq]) == before


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint32, ">i8"])
def test_lengths_come_in_any_integer_dtype(dtype: Any) -> None:
    kv = manager()
    seq = kv.allocate(SMALL).seq
    kv.step(commit=([seq], np.array([8], dtype)))
    slots = np.zeros(2, np.int64)
    wrote = kv.slot_mapping([seq], np.array([3], dtype), np.array([2], dtype), slots)
    assert (len(wrote), slots.tolist()) == (2, [3, 4])


@pytest.mark.parametrize(
    ("handles", "named"),
    [
        (np.array([3, -4]), r"seqs\[1\] = -4"),
        ([3, -4], r"seqs\[1\] = -4"),
        (np.array([3, -4], np.int32), r"seqs\[1\] = -4"),
        (np.array([1.0]), "seqs must be integers"),
        (["a"], "seqs must be integers"),
        ("a", "seqs must be integers"),
    ],
)
def test_wrong_handles_are_told_by_index_and_value(handles: Any, named: str) -> None:
    kv = manager()
    out = np.full((2, 3), 9, np.int32)
    with pytest.raises(UsageError, match=named):
        kv.block_tables(handles, out)
    assert (out == 9).all()
