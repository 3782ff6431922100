"""What a step writes into the engine's own arrays, and the requests it takes in."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    GroupConfig,
    Keep,
    KVCacheManager,
    MMItem,
    NeverFitsError,
    Request,
    Retention,
    TokenRange,
    UsageError,
)
from kvframe.request import RequestOptions

from .helpers import cached, manager, state

WINDOW = [
    GroupConfig(name="all"),
    GroupConfig(name="near", kind="sliding_window", window=6),
]


def whole(kv: KVCacheManager, seq: int, width: int, group: int = 0) -> list[int]:
    table: list[int] = kv.block_table(seq, group).tolist()
    return table + [-1] * (width - len(table))


def test_changed_entries_and_slots_of_a_decode_step() -> None:
    kv = manager(8)
    seqs = [kv.allocate([1] * n).seq for n in (3, 4, 9)]
    tables = np.full((3, 4), -1, np.int32)
    kv.block_tables(seqs, tables)
    slots = np.full(5, 99, np.int64)
    out = kv.step(append=seqs, tokens=[5, 6, 7], tables=tables, slots=slots)
    assert out.refused == []
    assert tables.tolist() == [whole(kv, s, 4) for s in seqs]
    expected = [int(kv.block_table(s)[-1]) * 4 + o for s, o in zip(seqs, (3, 0, 1), strict=True)]
    assert slots.tolist() == [*expected, 99, 99]


def test_a_refused_sequence_has_no_slots_and_keeps_its_row() -> None:
    kv = manager(3)
    seqs = [kv.allocate([1] * 4).seq, kv.allocate([2] * 3).seq]
    kv.allocate([3])
    tables = np.full((2, 4), 77, np.int32)
    slots = np.zeros(2, np.int64)
    out = kv.step(append=seqs, tokens=[5, 6], tables=tables, slots=slots)
    assert [(what, place) for what, place, _ in out.refused] == [("append", 0)]
    assert isinstance(out.refused[0][2], CapacityError)
    assert tables[0].tolist() == [77] * 4
    assert slots.tolist() == [-1, 7]


@pytest.mark.scenario("S3", "CB-B4")
def test_what_a_cut_and_a_growth_of_one_step_changed_is_written() -> None:
    """Drafts refused, new ones appended: the blocks between may be others than before."""
    kv = manager(8)
    seq = kv.allocate(list(range(12))).seq
    tables = np.full((1, 4), -1, np.int32)
    kv.block_tables([seq], tables)
    scratch = np.zeros(2, np.int32)
    kv.blocks.take(out=scratch)
    kv.blocks.free(scratch[::-1].copy())
    kv.step(
        truncate=([seq], [3]),
        append=[seq],
        counts=[9],
        tokens=list(range(9)),
        tables=tables,
    )
    assert tables[0].tolist() == whole(kv, seq, 4)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_rows_kept_by_the_engine_stay_those_of_the_manager(groups: int, seed: int) -> None:
    """An engine that reads nothing but what steps wrote has the same tables all the time."""
    dice = random.Random(seed)
    kv = manager(160, groups=WINDOW[:groups])
    width = 12
    seqs: list[int] = []
    rows: dict[int, list[np.ndarray[Any, Any]]] = {}
    for _ in range(400):
        seqs = [s for s in seqs if s in rows]
        if len(seqs) < 4 and dice.random() < 0.5:
            child = bool(seqs) and dice.random() < 0.4
            seq = kv.fork(seqs[0]) if child else kv.allocate([dice.randrange(2)] * 5).seq
            seqs.append(seq)
            rows[seq] = [np.array(whole(kv, seq, width, g), np.int32) for g in range(groups)]
        grown = dice.sample(seqs, dice.randint(0, len(seqs)))
        counts = [dice.randrange(4) for _ in grown]
        cut = [s for s in grown if dice.random() < 0.3]
        # A window gives up what is committed, so no cut goes below it.
        to = [max(kv.lengths(s).slots - dice.randrange(6), kv.lengths(s).committed) for s in cut]
        done = [s for s in grown if s not in cut and dice.random() < 0.5]
        tables = [
            np.array([rows[s][g] for s in grown], np.int32).reshape(len(grown), width)
            for g in range(groups)
        ]
        slots = [np.full(sum(counts), -9, np.int64) for _ in range(groups)]
        out = kv.step(
            truncate=(cut, to),
            commit=(done, [kv.lengths(s).slots for s in done]),
            append=grown,
            counts=counts,
            tokens=[dice.randrange(2)] * sum(counts),
            tables=tables,
            slots=slots,
        )
        assert out.refused == []
        if out.plan:
            kv.done(out.plan.ticket)
        at = 0
        for i, (seq, count) in enumerate(zip(grown, counts, strict=True)):
            length = kv.lengths(seq).slots
            for g in range(groups):
                table = kv.block_table(seq, g)
                live = table >= 0
                rows[seq][g] = tables[g][i].copy()
                got = tables[g][i][: len(table)]
                assert got[live].tolist() == table[live].tolist(), (seed, seq, g)
                out_slots = np.zeros(count, np.int64)
                kv.slot_mapping([seq], [length - count], [count], out_slots, group=g)
                assert slots[g][at : at + count].tolist() == out_slots.tolist()
            at += count
            if length > 40:
                kv.release(seq)
                del rows[seq]
        kv.check_integrity()


WRONG: dict[str, dict[str, Any]] = {
    "rows": {"tables": np.full((1, 9), 7, np.int32)},
    "columns": {"tables": np.full((2, 1), 7, np.int32)},
    "slots": {"slots": np.full(1, 7, np.int64)},
    "two tables": {"tables": [np.full((2, 9), 7, np.int32)] * 1 + [np.full((2, 9), 7, np.int32)]},
    "dtype": {"tables": np.full((2, 9), 7, np.int64)},
    "read-only": {"slots": np.broadcast_to(np.int64(7), (4,))},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_buffer_that_does_not_fit_refuses_the_whole_step(name: str) -> None:
    kv = manager(8)
    seqs = [kv.allocate([i] * 4).seq for i in (1, 2)]
    before = state(kv, seqs)
    with pytest.raises((UsageError, TypeError)):
        kv.step(commit=(seqs, [4, 4]), append=seqs, tokens=[5, 6], **WRONG[name])
    assert state(kv, seqs) == before
    for given in WRONG[name].values():
        for array in [given] if isinstance(given, np.ndarray) else given:
            assert (array == 7).all()


def test_one_array_for_two_groups_is_refused() -> None:
    kv = manager(8, groups=WINDOW)
    seq = kv.allocate([1] * 4).seq
    before = state(kv, [seq])
    one = np.zeros((1, 4), np.int32)
    with pytest.raises((UsageError, TypeError, ValueError)):
        kv.step(append=[seq], tokens=[5], tables=[one, one])
    assert state(kv, [seq]) == before


def test_requests_come_in_after_everything_else() -> None:
    kv = manager(4)
    cached(kv, [1] * 4)
    running = kv.allocate([9] * 12).seq
    requests = [Request([1] * 4 + [5] * 8), Request([1] * 17), Request([1] * 5)]
    before = state(kv, [running])
    out = kv.step(allocate=requests)
    assert out.allocations == [None, None, None]
    assert [(what, place, type(e)) for what, place, e in out.refused] == [
        ("allocate", 0, CapacityError)
    ]
    out = kv.step(allocate=requests, skip_refused=True)
    assert out.allocations == [None, None, None]
    assert [(place, type(e)) for _, place, e in out.refused] == [
        (0, CapacityError),
        (1, NeverFitsError),
        (2, CapacityError),
    ]
    assert state(kv, [running]) == before
    out = kv.step(release=[running], allocate=requests, skip_refused=True)
    first, never, last = out.allocations
    assert first is not None
    assert first[1:4] == (4, 12, 12)
    assert never is None
    assert last is not None
    assert last[1:4] == (4, 5, 5)
    kv.check_integrity()
    assert kv.stats.counters()["requests"] == 4


@pytest.mark.scenario("IL-B6")
def test_a_request_is_hashed_for_the_manager_that_tries_it() -> None:
    """One request tried by managers of other block sizes, hashes, weights: never a wrong key."""
    request = Request(list(range(12)), cache_salt="s")
    managers = [
        manager(8),
        manager(8, 2),
        manager(8, hash="blake3"),
        manager(8, weight_version="v2"),
        manager(8, prefix_caching=False),
    ]
    for kv in [*managers, *managers[::-1]]:
        grant = kv.allocate(request)
        kv.commit(grant.seq, 12)
        kv.release(grant.seq)
        kv.check_integrity()
    for kv in managers[:-1]:
        assert kv.allocate(list(range(12)), cache_salt="s").cached_tokens == 12 - kv.block_size
        assert kv.lookup(list(range(12))).tokens == 0


def test_a_request_does_not_keep_the_callers_arrays() -> None:
    ids, outlook = np.arange(9, dtype=np.uint32), np.zeros(3, np.uint32)
    request = Request(ids, next_use=outlook)
    assert len(request) == 9
    ids[:] = 5
    kv = manager(8)
    kv.commit(kv.allocate(request).seq, 9)
    assert kv.lookup(list(range(9))).tokens == 8
    assert len(Request(None, num_tokens=7)) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_salt": 3}, "cache_salt = 3"),
        ({"mm_items": [(3, 2, b"")]}, r"mm_items\[0\]"),
        ({"priority": 2**40}, "priority"),
        ({"session": -1}, "session"),
        ({"chunk": -1}, "chunk"),
        ({"turn": 2**32}, "turn"),
        ({"num_tokens": 2**32}, "num_tokens = 4294967296"),
        ({"next_use": [-1]}, r"next_use\[0\] = -1"),
        ({"keys": np.zeros((2, 3), np.uint64)}, "keys"),
    ],
)
def test_a_wrong_request_is_never_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Request(None if "num_tokens" in options else [1, 2], **options)


def test_an_unknown_option_is_no_option() -> None:
    with pytest.raises(UsageError, match=r"^cache_sallt: .*did you mean cache_salt\?"):
        Request([1], cache_sallt="x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("salt", "cache_salt"),
        ("adapter", "lora_name"),
        ("extras", "mm_items"),
        ("outlook", "next_use"),
        ("whole_sequence", "full_sequence_must_fit"),
        ("external", "num_external_tokens"),
        ("read", "read_cache"),
        ("insert", "write_cache"),
        ("max_tokens", "max_seq_len"),
    ],
)
def test_an_old_option_says_what_it_is_called(old: str, new: str) -> None:
    with pytest.raises(UsageError, match=f"^{old}: .* is called {new}"):
        Request([1], **{old: 1})


def test_type_checkers_know_every_option() -> None:
    assert set(RequestOptions.__annotations__) == {"num_tokens", *Request.OPTIONS}


def test_a_request_shows_what_it_is() -> None:
    request = Request(range(9), cache_salt="a", chunk=4)
    assert repr(request) == "Request([0, 1, 2, 3, ...], num_tokens=9, cache_salt='a', chunk=4)"
    assert request.options == {"cache_salt": "a", "chunk": 4}
    retention = Retention([TokenRange(0, 4, Keep(90, 3))], Keep(1, decay="linear"))
    given: RequestOptions = {
        "mm_items": [MMItem(1, 3, b"x")], "turn": 2, "retention": retention, "until": 5,
        "next_use": np.array([3], np.uint32), "encoder": b"y", "read_cache": False,
    }  # fmt: skip
    made = Request([1, 2, 3, 4, 5], **given)
    assert made.options.keys() == given.keys()
    for name, value in given.items():
        assert getattr(made, name) == value, name
    assert np.asarray(made.prompt).tolist() == [1, 2, 3, 4, 5]
    assert made.keys is None


def test_replace_makes_another_request() -> None:
    kv = manager(16)
    request = Request(list(range(9)), cache_salt="a", max_seq_len=20)
    other = request.replace(cache_salt="b", chunk=None)
    assert (request.cache_salt, other.cache_salt, other.max_seq_len) == ("a", "b", 20)
    shorter = request.replace(prompt=[1, 2])
    assert (len(shorter), shorter.cache_salt, len(request)) == (2, "a", 9)
    for one in (request, other):
        grant = kv.allocate(one)
        assert grant.cached_tokens == 0, "another salt"
        kv.commit(grant.seq, 9)
        kv.release(grant.seq)
    assert kv.allocate(request.replace(turn=3)).cached_tokens == 8
    with pytest.raises(UsageError, match="max_seq_len = 3"):
        request.replace(max_seq_len=3)
    by_keys = Request(None, keys=kv.blocks.hash_blocks(range(8)), num_tokens=9).replace(turn=1)
    assert (by_keys.prompt, len(by_keys), by_keys.turn) == (None, 9, 1)
