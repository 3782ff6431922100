"""A life: admit, extend, append, commit, truncate, fork, release, and what is then found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from kvframe import CapacityError, MMItem, NeverFitsError, Request, UsageError
from kvframe.policies import BatchedEviction

from .helpers import cached, manager, registry, state


@pytest.mark.scenario("MK-1", "T32", "V19", "I6", "MK-B3", "IL-B4")
@pytest.mark.parametrize(("length", "hit"), [(4, 0), (5, 4), (7, 4), (8, 4), (9, 8), (12, 8)])
def test_at_least_one_token_is_computed(length: int, hit: int) -> None:
    kv = manager(16)
    cached(kv, range(8))
    prompt = list(range(length))
    assert kv.lookup(prompt).tokens == hit
    grant = kv.allocate(prompt)
    assert (grant.cached_tokens, grant.granted_tokens, grant.prompt_tokens) == (hit, length, length)
    assert kv.lengths(grant.seq) == (length, length, hit, hit)
    kv.check_integrity()


@pytest.mark.scenario("IL-6", "IL-B6", "V20", "MK-B8")
def test_lookup_changes_nothing_and_admission_counts_once() -> None:
    kv = manager(16)
    cached(kv, range(8))
    cached(kv, range(50, 58))
    before = state(kv)
    for _ in range(5):
        assert kv.lookup(list(range(9))).tokens == 8
    assert state(kv) == before
    seq = kv.allocate(list(range(9))).seq
    stats = kv.stats.counters()
    assert (stats["requests"], stats["prompt_tokens"]) == (3, 25)
    assert (stats["hit_tokens"], stats["requests_with_hit"]) == (8, 1)
    kv.release(seq)
    kv.allocate(list(range(9)), resumed=True)
    stats = kv.stats.counters()
    assert (stats["requests"], stats["hit_tokens"]) == (3, 8)
    assert (stats["resumed"], stats["resumed_hit_tokens"]) == (1, 8)


@pytest.mark.scenario("MK-5", "MK-B4", "VT3")
def test_generated_tokens_are_cached_block_by_block() -> None:
    kv = manager()
    seq = kv.allocate([0] * 6).seq
    kv.commit(seq, 6)
    for length in range(7, 19):
        kv.append(seq, [length])
        kv.commit(seq, length)
        assert kv.stats.counters()["stored"] == length // 4
    assert kv.block_table(seq).tolist() == [0, 1, 2, 3, 4]
    kv.release(seq)
    assert kv.lookup([0] * 6 + list(range(7, 19)) + [1]).tokens == 16


@pytest.mark.scenario("MK-8", "IL-B8", "VT5", "T31", "IL-B2")
def test_a_released_block_is_found_until_it_is_evicted() -> None:
    kv = manager(2)
    cached(kv, range(8))
    assert kv.counts() == (0, 2, 0, 2)
    assert kv.lookup(list(range(9))).tokens == 8
    cached(kv, range(90, 94))
    assert kv.lookup(list(range(9))).tokens == 4
    assert kv.stats.counters()["evictions"] == 1
    cached(kv, range(70, 78))
    assert kv.lookup(list(range(9))).tokens == 0
    kv.check_integrity()


@pytest.mark.scenario("V8", "MK-B14", "IL-B9", "VT1")
def test_a_tail_dies_before_its_head() -> None:
    kv = manager(6)
    for head in (0, 20, 40):
        cached(kv, range(head, head + 8))
    assert kv.inspect.eviction_order().tolist() == [1, 0, 3, 2, 5, 4]
    kv.allocate(list(range(80, 92)))
    assert [kv.lookup(list(range(h, h + 9))).tokens for h in (0, 20, 40)] == [0, 4, 8]


@pytest.mark.scenario("V7")
def test_a_partial_block_is_free_at_once() -> None:
    kv = manager(4)
    grant = kv.allocate(list(range(14)))
    kv.commit(grant.seq, 14)
    kv.release(grant.seq)
    assert kv.counts() == (1, 3, 0, 4)
    kv.allocate([99])
    assert kv.lookup(list(range(14))).tokens == 12


@pytest.mark.scenario("MK-4", "VT7", "ST1")
def test_without_prefix_caching_nothing_is_found() -> None:
    kv = manager(prefix_caching=False)
    cached(kv, range(8))
    assert kv.counts() == (8, 0, 0, 8)
    assert kv.allocate(list(range(9))).cached_tokens == 0
    assert kv.stats.counters()["stored"] == 0


@pytest.mark.scenario("VT2", "ST18", "S29", "MK-B15", "T44")
def test_read_and_insert_are_switches() -> None:
    kv = manager(12)
    cached(kv, range(8))
    blind = kv.allocate(list(range(9)), read_cache=False)
    assert blind.cached_tokens == 0
    kv.commit(blind.seq, 9)
    assert kv.stats.counters()["duplicates"] == 2
    kv.release(blind.seq)
    kv.check_integrity()
    assert kv.counts().cached == 2
    cached(kv, range(60, 68), write_cache=False)
    assert kv.lookup(list(range(60, 69))).tokens == 0
    assert kv.counts() == (10, 2, 0, 12)


@pytest.mark.scenario("VT2", "V20")
def test_who_was_not_to_read_is_not_to_when_it_comes_back() -> None:
    """As prompt log-probabilities are wanted of every token, computed before or not."""
    kv = manager(12)
    cached(kv, range(8))
    blind = kv.allocate(list(range(9)), read_cache=False)
    kv.commit(blind.seq, 9)
    back = kv.preempt(blind.seq)
    assert kv.lookup(back).tokens == 0
    again = kv.allocate(back)
    assert again.cached_tokens == 0
    kv.commit(again.seq, 9)
    assert kv.allocate(list(range(9))).cached_tokens == 8
    kv.check_integrity()


@pytest.mark.scenario("U-12", "I13")
@pytest.mark.parametrize("cache", [{"index": "radix"}, {"index": "hash", "hash": "xxh3-128"}])
def test_whoever_came_as_keys_comes_back_as_keys(cache: dict[str, Any]) -> None:
    """Where tokens are compared, keys alone are for those who neither read nor insert."""
    kv = manager(12, **cache)
    keys = np.arange(4, dtype=np.uint64).reshape(2, 2)
    seq = kv.allocate(None, keys=keys, num_tokens=9, read_cache=False, write_cache=False).seq
    kv.commit(seq, 9)
    again = kv.allocate(kv.preempt(seq))
    assert (again.cached_tokens, again.granted_tokens) == (0, 9)
    kv.check_integrity()


def test_chunked_prefill_gets_slots_as_it_goes() -> None:
    kv = manager(8)
    cached(kv, range(4))
    grant = kv.allocate(list(range(14)), chunk=5)
    assert (grant.cached_tokens, grant.granted_tokens, grant.prompt_tokens) == (4, 9, 14)
    assert kv.lengths(grant.seq) == (14, 9, 4, 4)
    with pytest.raises(UsageError, match="5 known tokens have no slots yet"):
        kv.append(grant.seq, [3])
    kv.extend(grant.seq, 13)
    with pytest.raises(UsageError, match="extend of 12 tokens, but 13 are already there"):
        kv.extend(grant.seq, 12)
    with pytest.raises(UsageError, match="extend = 15: only 14 tokens are known"):
        kv.extend(grant.seq, 15)
    kv.extend(grant.seq, 14)
    kv.append(grant.seq, [14, 15])
    assert kv.block_table(grant.seq).size == 4
    assert kv.stats.counters()["requests"] == 2
    kv.check_integrity()


def test_partial_takes_what_can_be_had() -> None:
    kv = manager(4)
    held = kv.allocate([9] * 5).seq
    grant = kv.allocate(list(range(13)), partial=True)
    assert (grant.granted_tokens, grant.prompt_tokens) == (8, 13)
    kv.release(held)
    kv.extend(grant.seq, 13)
    assert kv.lengths(grant.seq).slots == 13
    nothing = kv.allocate([5], partial=True)
    assert nothing.granted_tokens == 0
    kv.check_integrity()


def test_until_bounds_the_slots() -> None:
    kv = manager(8)
    assert kv.allocate(list(range(13)), until=6).granted_tokens == 6
    assert kv.allocate(list(range(13)), until=0).granted_tokens == 0
    kv.check_integrity()


@pytest.mark.scenario("U-4", "I3", "MK-6", "VT12", "MK-B1", "FE-4", "IL-3", "FE-10")
def test_a_hit_is_no_room_for_its_own_miss() -> None:
    kv = manager(2)
    cached(kv, [1] * 4)
    both = kv.allocate([1] * 4 + [2] * 4)
    assert kv.counts() == (0, 0, 2, 2)
    before = state(kv, [both.seq])
    with pytest.raises(CapacityError, match="needs 1 blocks, but only 0"):
        kv.allocate([9])
    with pytest.raises(CapacityError, match="needs 1 blocks, but only 0"):
        kv.allocate([1] * 4 + [3] * 4)
    assert state(kv, [both.seq]) == before
    kv.release(both.seq)
    assert kv.allocate([1] * 4 + [3] * 4).cached_tokens == 4


@pytest.mark.scenario("U-12", "CB-6")
def test_what_can_never_fit_is_told_apart() -> None:
    kv = manager(3)
    with pytest.raises(NeverFitsError, match="needs 4 blocks, but the whole pool has 3"):
        kv.allocate(list(range(13)))
    seq = kv.allocate(list(range(12))).seq
    with pytest.raises(NeverFitsError, match="needs 4 blocks, but the whole pool has 3"):
        kv.append(seq, [1])
    other = manager(3)
    other.allocate([1])
    with pytest.raises(CapacityError) as caught:
        other.allocate(list(range(12)))
    assert type(caught.value) is CapacityError


@pytest.mark.scenario("S3", "S7")
def test_rejected_drafts_leave_once_and_are_not_shared() -> None:
    kv = manager(8)
    seq = kv.allocate(list(range(6))).seq
    kv.commit(seq, 6)
    kv.append(seq, [70, 71, 72, 73, 74])
    assert kv.lookup([*range(6), 70, 71, 0]).tokens == 4
    kv.truncate(seq, 7)
    assert kv.block_table(seq).tolist() == [0, 1]
    kv.append(seq, [7])
    kv.commit(seq, 8)
    kv.release(seq)
    assert kv.lookup([*range(6), 70, 7, 0]).tokens == 8
    assert kv.lookup([*range(6), 70, 71, 0]).tokens == 4
    assert kv.counts() == (6, 2, 0, 8)
    kv.check_integrity()


def test_a_cut_below_what_is_shared_leaves_the_shared_block_whole() -> None:
    kv = manager(8)
    seq = kv.allocate(list(range(8))).seq
    kv.commit(seq, 8)
    kv.truncate(seq, 6)
    assert kv.lengths(seq) == (6, 6, 6, 0)
    kv.append(seq, [60, 70])
    plan = kv.take_plan()
    assert plan
    assert plan.copies.tolist() == [[1, 2, 2, 0]]
    kv.done(plan.ticket)
    kv.commit(seq, 8)
    assert kv.lookup([*range(8), 0]).tokens == 8
    assert kv.lookup([*range(6), 60, 70, 0]).tokens == 8
    kv.check_integrity()


@pytest.mark.scenario("V29", "VT13", "ST13")
def test_clear_forgets_all_and_what_runs_leaves_nothing() -> None:
    kv = manager(8)
    cached(kv, range(8))
    seq = kv.allocate([*range(4), 50, 51, 52, 53]).seq
    assert kv.reset_prefix_cache() == 1
    kv.commit(seq, 8)
    kv.release(seq)
    assert kv.counts() == (8, 0, 0, 8)
    assert kv.lookup(list(range(9))).tokens == 0
    cached(kv, range(8))
    assert kv.lookup(list(range(9))).tokens == 8
    kv.check_integrity()


def test_keys_stand_for_the_prompt(index: str) -> None:
    kv = manager(8)
    prompt = np.arange(11, dtype=np.uint32)
    keys = kv.blocks.hash_blocks(prompt)
    assert keys.shape == (2, 2)
    assert keys.dtype == np.uint64
    if index == "radix":
        with pytest.raises(UsageError, match="the radix index matches tokens"):
            kv.allocate(None, keys=keys, num_tokens=11)
        assert (
            kv.allocate(
                None, keys=keys, num_tokens=11, read_cache=False, write_cache=False
            ).cached_tokens
            == 0
        )
        return
    first = kv.allocate(None, keys=keys, num_tokens=11)
    kv.commit(first.seq, 11)
    with pytest.raises(UsageError, match="came as keys"):
        kv.append(first.seq, [1])
    kv.release(first.seq)
    assert kv.allocate(prompt).cached_tokens == 8
    assert kv.allocate(prompt, keys=keys[:1]).cached_tokens == 8
    kv.check_integrity()


@pytest.mark.parametrize("order", [[1], [1, 0], [0, 0], [1, 1], [2, 1, 0]])
def test_keys_out_of_their_chain_do_not_break_the_books(order: list[int]) -> None:
    kv = manager(12)
    keys = kv.blocks.hash_blocks(list(range(12)))
    cached(kv, range(12))
    try:
        grant = kv.allocate(None, keys=keys[order], num_tokens=4 * len(order) + 1)
    except UsageError:
        kv.check_integrity()
        return
    kv.check_integrity()
    kv.commit(grant.seq, grant.prompt_tokens)
    kv.check_integrity()
    kv.release(grant.seq)
    kv.check_integrity()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (np.zeros((1, 3), np.uint64), "keys must have shape"),
        (np.zeros(2, np.uint64), "keys must be"),
        (np.zeros((1, 2), np.int64), "keys must be a uint64 array"),
        ([[1, 2]], "each must be bytes, 16 of them or more"),
    ],
)
def test_wrong_keys_are_refused(keys: Any, message: str) -> None:
    kv = manager()
    with pytest.raises(UsageError, match=message):
        kv.allocate(None, keys=keys, num_tokens=4)
    assert kv.counts().free == 8


@pytest.mark.scenario("I13", "MK-B11")
@pytest.mark.parametrize("kind", ["hash", "radix"])
def test_a_length_without_tokens_costs_no_memory(kind: str) -> None:
    kv = manager(8, index=kind)
    huge = Request(None, num_tokens=2**32 - 1, mm_items=[MMItem(0, 2**32 - 1, b"x")])
    assert kv.lookup(huge).tokens == 0
    with pytest.raises(NeverFitsError):
        kv.allocate(huge)
    assert kv.allocate(huge, partial=True).granted_tokens == 32


@pytest.mark.scenario("S20", "F29")
def test_a_request_in_chunks_hits_each_block_once_however_often_it_was_looked_up() -> None:
    class Counts(BatchedEviction):
        def __init__(self) -> None:
            self.hits: Counter[int] = Counter()

        def hit(self, blocks: Any, now: int) -> None:
            self.hits.update(blocks.tolist())

        def score(self, candidates: Any, out: Any) -> None:
            out[:] = 0

    policy = Counts()
    kv = manager(16, policy="counts", known=registry("counts", lambda _: policy))
    prompt = list(range(17))
    for _ in range(3):
        for _ in range(2):
            kv.lookup(prompt)
        seq = kv.allocate(prompt, chunk=4).seq
        done = kv.lengths(seq).cached
        for upto in range(done, 17, 4):
            kv.extend(seq, min(upto + 4, 17))
            kv.commit(seq, min(upto + 4, 17))
            kv.lookup(prompt)
        kv.release(seq)
    kv.evict_until(16)
    # What a request's own chunks computed is no hit, and a look is none.
    assert sorted(policy.hits.values()) == [2] * 4
