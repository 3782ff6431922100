"""makarna's manager: its scenarios (MK) and what it got wrong (MK-B). Blocks of 4 tokens.

It keeps a pool a layer; kvframe's layer groups share one, so "a layer" here is a group.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    GroupConfig,
    KVCacheManager,
    KVFrameError,
    MMItem,
    NeverFitsError,
    SequenceCapacity,
    UsageError,
)
from kvframe.policies import BatchedEviction

from ..manager.helpers import registry
from .helpers import available, cached, found, manager, owners, state, words

TWO = [GroupConfig(name="a"), GroupConfig(name="b")]


# --- MK: its scenarios ----------------------------------------------------------------------------


@pytest.mark.scenario("MK-1", "MK-B3", "T32", "V19")
def test_a_prompt_that_is_all_there_computes_its_last_block() -> None:
    kv = manager(8)
    first = kv.admit(list(range(8)))
    assert (first.cached_tokens, kv.block_table(first.seq).size) == (0, 2)
    kv.commit(first.seq, 8)
    assert kv.stats()["stored"] == 2
    same = kv.admit(list(range(8)))
    assert same.cached_tokens == 4
    tables = [kv.block_table(seq).tolist() for seq in (first.seq, same.seq)]
    # What it computes goes into a page of its own.
    assert tables[0][0] == tables[1][0]
    assert tables[0][1] != tables[1][1]
    assert owners(kv, tables[1][1]) == 1


@pytest.mark.scenario("MK-2")
def test_nine_tokens_that_share_eight_take_one_block() -> None:
    kv = manager(8)
    kv.commit(kv.admit(list(range(8))).seq, 8)
    used = kv.counts().referenced
    assert kv.admit(list(range(9))).cached_tokens == 8
    assert kv.counts().referenced - used == 1


@pytest.mark.scenario("MK-4")
def test_without_caching_nothing_is_cached() -> None:
    kv = manager(8, prefix_caching=False)
    for _ in range(2):
        grant = kv.admit(list(range(9)))
        assert grant.cached_tokens == 0
        kv.commit(grant.seq, 9)
        kv.release(grant.seq)
    assert (kv.stats()["stored"], kv.counts().free) == (0, 8)


@pytest.mark.scenario("MK-5", "MK-B4", "MK-B5")
@pytest.mark.parametrize("steps", [[18], [6, 18], [7, 8, 9, 18], [5, 13, 18], [*range(6, 19)]])
def test_four_blocks_are_cached_of_eighteen_tokens_however_they_come(steps: list[int]) -> None:
    kv = manager(8)
    text = list(range(18))
    seq = kv.admit(text[:6], chunk=6).seq
    for until in steps:
        if (slots := kv.lengths(seq).slots) < until:
            kv.append(seq, text[slots:until])
        kv.commit(seq, until)
        assert found(kv, text[: until // 4 * 4]) == until // 4 * 4
    assert kv.stats()["stored"] == 4
    assert kv.admit([*text, 99]).cached_tokens == 16


@pytest.mark.scenario("MK-B5")
def test_ids_that_come_late_hold_back_only_their_own_blocks() -> None:
    kv = manager(8)
    seq = kv.admit(list(range(6))).seq
    kv.append_unknown(seq, 10)
    kv.fill(seq, [6, 7, 8])
    kv.commit(seq, 9)
    assert found(kv, list(range(8))) == 8
    with pytest.raises(UsageError):
        kv.commit(seq, 12)
    kv.fill(seq, list(range(9, 16)))
    kv.commit(seq, 16)
    assert found(kv, list(range(16))) == 16


@pytest.mark.scenario("MK-6", "MK-B1", "VT12")
@pytest.mark.parametrize("groups", [[], TWO])
def test_a_failed_admission_leaves_every_count(groups: list[GroupConfig]) -> None:
    layers = max(1, len(groups))
    kv = manager(6 * layers, groups=groups)
    runs = kv.admit(list(range(8))).seq
    kv.commit(runs, 8)
    cached(kv, [*range(4), 50, 51, 52, 53])
    kv.admit([9])
    before = state(kv, [runs])
    counts = [owners(kv, block) for block in range(6 * layers)]
    for wanted in ([*range(8), *[60] * 13], [*range(4), 50, 51, 52, 53, *[60] * 13]):
        with pytest.raises(CapacityError):
            kv.admit(wanted)
        assert state(kv, [runs]) == before
        assert [owners(kv, block) for block in range(6 * layers)] == counts
        kv.check_integrity()


@pytest.mark.scenario("MK-7", "MK-B6")
def test_a_failed_append_leaves_tokens_and_tables_and_works_later() -> None:
    kv = manager(7, groups=TWO)
    seq = kv.admit(list(range(8))).seq
    other = kv.admit([9]).seq
    before = state(kv, [seq, other])
    for _ in range(2):
        # One block is free, and a block a group is needed.
        with pytest.raises(CapacityError, match="needs 2 blocks, but only 1"):
            kv.append(seq, [8])
        assert state(kv, [seq, other]) == before
    kv.release(other)
    kv.append(seq, [8])
    assert kv.lengths(seq).slots == 9
    assert [kv.block_table(seq, group).size for group in (0, 1)] == [3, 3]


@pytest.mark.scenario("MK-8", "IL-B8")
def test_what_was_freed_is_hit_again() -> None:
    kv = manager(8)
    for hit in (0, 8, 8):
        grant = kv.admit(list(range(9)))
        assert grant.cached_tokens == hit
        kv.commit(grant.seq, 9)
        kv.release(grant.seq)


@pytest.mark.scenario("MK-9", "MK-B10")
@pytest.mark.parametrize("upto", [4, 1000, 2**32, -1])
def test_a_commit_stays_within_what_was_appended(upto: int) -> None:
    kv = manager(8)
    seq = kv.admit(list(range(3))).seq
    before = state(kv, [seq])
    with pytest.raises(UsageError):
        kv.commit(seq, upto)
    with pytest.raises(KVFrameError):
        kv.commit(seq + 1, 1)
    assert state(kv, [seq]) == before


@pytest.mark.scenario("MK-10")
def test_an_empty_prompt_takes_its_first_block_with_its_first_token() -> None:
    kv = manager(8)
    grant = kv.admit([])
    assert (grant.cached_tokens, kv.block_table(grant.seq).size) == (0, 0)
    kv.append(grant.seq, [5])
    assert kv.block_table(grant.seq).size == 1


# --- MK-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("MK-B7", "VT47")
def test_a_block_late_in_a_text_costs_what_an_early_one_did() -> None:
    """Keys go on from the last one: with all hashed anew the late blocks would cost 64 times."""

    def blocks(seq: int, kv: KVCacheManager, count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            kv.append(seq, [7] * 4)
            kv.commit(seq, kv.lengths(seq).slots)
        return time.perf_counter() - start

    kv = manager(50_000)
    seq = kv.admit([7] * 4).seq
    early = min(blocks(seq, kv, 100) for _ in range(5))
    for _ in range(8):
        slots = kv.lengths(seq).slots
        kv.append(seq, [7] * 16_000)
        kv.commit(seq, slots + 16_000)
    late = min(blocks(seq, kv, 100) for _ in range(5))
    assert late < 8 * early


@pytest.mark.scenario("MK-B11")
def test_positions_layers_and_limits_are_checked() -> None:
    for model in ({"layers": 0}, {"kv_heads": 0}, {"layers": -1}):
        shape = {"layers": 2, "kv_heads": 1, "head_dim": 8} | model
        with pytest.raises(ConfigError):
            Config.load(env={}, cache={"capacity": "1 MiB"}, model=shape).resolve()
    size = SequenceCapacity(max_seq_len=8, max_requests=2)
    kv = KVCacheManager(Config(cache=CacheConfig(capacity=size, block_size=4)))
    seqs = [kv.admit([n] * 8, max_seq_len=8).seq for n in (1, 2)]
    with pytest.raises(CapacityError):
        kv.admit([3] * 8)
    with pytest.raises(NeverFitsError):
        kv.admit([3] * 8, max_seq_len=17)
    out = np.zeros(1, np.int64)
    for start, group in ((-1, 0), (8, 0), (0, -1), (0, 1)):
        with pytest.raises(KVFrameError):
            kv.slot_mapping(seqs[:1], [start], [1], out, group=group)


@pytest.mark.scenario("MK-B14")
def test_the_head_of_a_prefix_outlives_its_tail() -> None:
    kv = manager(4)
    cached(kv, range(16))
    for left in (12, 8, 4, 0):
        kv.collect(kv.counts().free + 1)
        assert found(kv, list(range(16))) == left
        kv.check_integrity()


SPACES: list[dict[str, Any]] = [
    {},
    {"cache_salt": "a"},
    {"lora_name": "a"},
    {"mm_items": [MMItem(0, 2, b"cat")]},
    {"mm_items": [MMItem(0, 2, b"dog")]},
]


@pytest.mark.scenario("MK-B16", "VT45", "V18")
@pytest.mark.parametrize("mine", range(len(SPACES)))
def test_salt_adapter_and_items_are_part_of_a_key(mine: int) -> None:
    kv = manager(8)
    cached(kv, range(8), **SPACES[mine])
    for other, space in enumerate(SPACES):
        assert kv.lookup(list(range(9)), **space).tokens == (8 if other == mine else 0)


@pytest.mark.scenario("MK-B16", "V17")
def test_a_key_that_matches_other_tokens_is_a_miss() -> None:
    kv = manager(8, hash="xxh3-128")
    cached(kv, range(8))
    forged = kv.hash_blocks(list(range(8)))
    grant = kv.admit([*range(4), 70, 71, 72, 73, 9], keys=forged)
    assert grant.cached_tokens == 4
    assert kv.stats()["collisions"] == 1
    kv.commit(grant.seq, 9)
    # What collided is not findable, and what was there still is.
    assert found(kv, [*range(4), 70, 71, 72, 73]) == 4
    assert found(kv, list(range(8))) == 8
    kv.check_integrity()


@pytest.mark.scenario("MK-B17", "CB-B7")
def test_which_block_dies_is_up_to_a_policy() -> None:
    class YoungestFirst(BatchedEviction):
        def score(self, candidates: Any, out: Any) -> None:
            out[:] = -candidates.columns["last_use"].astype(np.float64)

    known = registry("youngest", lambda _: YoungestFirst())
    for policy, left in (("lru", [0, 4, 4]), ("fifo", [0, 4, 4]), ("youngest", [4, 4, 0])):
        kv = manager(3, policy=policy, known=known)
        for word in range(3):
            cached(kv, words(word, size=4))
        kv.admit([99])
        assert [found(kv, words(word, size=4)) for word in range(3)] == left
        assert available(kv) == 2
