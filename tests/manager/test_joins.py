"""Requests that share what is being computed, and duplicates that give way."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import Grant, KVCacheManager, Request

from .helpers import manager

PROMPT = list(range(13))


def two(kv: KVCacheManager) -> tuple[Grant, Grant]:
    out = kv.step(admit=[Request(PROMPT), Request(PROMPT, join=True)])
    one, other = out.grants
    assert one is not None
    assert other is not None
    return one, other


@pytest.mark.scenario("V30", "T44")
def test_the_second_of_two_like_requests_waits_for_the_first() -> None:
    kv = manager(8)
    one, other = two(kv)
    assert (other.cached_tokens, other.joined_tokens, other.granted_tokens) == (0, 12, 13)
    tables = [kv.block_table(g.seq).tolist() for g in (one, other)]
    assert tables[0][:3] == tables[1][:3]
    assert kv.counts().referenced == 5
    # Computing behind is allowed; nothing is found or read before the first has committed.
    kv.commit(other.seq, 13)
    assert kv.lookup(PROMPT).tokens == kv.readable(other.seq) == 0
    kv.check_integrity()
    kv.commit(one.seq, 4)
    assert kv.lookup(PROMPT).tokens == kv.readable(other.seq) == 4
    kv.commit(one.seq, 13)
    assert kv.lookup(PROMPT).tokens == 12
    assert kv.readable(other.seq) == 13
    assert kv.take_changes() == ([], [])
    assert kv.request_usage(other.seq).joined == kv.stats()["joined_tokens"] == 12
    for grant in (one, other):
        kv.release(grant.seq)
        kv.check_integrity()
    assert kv.counts() == (5, 3, 0, 8)


@pytest.mark.scenario("V30")
@pytest.mark.parametrize("computed", [0, 4, 7])
def test_who_joined_is_cut_with_the_computation_and_told(computed: int) -> None:
    kv = manager(8)
    one, other = two(kv)
    kv.commit(one.seq, computed)
    out = kv.step(commit=([other.seq], [13]), release=[one.seq])
    good = computed // 4 * 4
    assert out.rewound == [other.seq]
    assert kv.lengths(other.seq) == (13, good, good, 0)
    kv.check_integrity()
    kv.extend(other.seq, 13)
    kv.commit(other.seq, 13)
    assert kv.lookup(PROMPT).tokens == 12
    kv.release(other.seq)
    assert kv.counts() == (5, 3, 0, 8)
    kv.check_integrity()


@pytest.mark.scenario("V30", "F31")
@pytest.mark.parametrize("length", [0, 4])
def test_who_joined_and_was_cut_before_it_is_brought_nothing(length: int) -> None:
    kv = manager(8)
    one = kv.admit(PROMPT).seq
    kv.commit(one, 4)
    other = kv.admit(PROMPT, join=True)
    assert (other.cached_tokens, other.joined_tokens) == (4, 8)
    kv.truncate(other.seq, length)
    # Other tokens come into other blocks: those of the first say nothing of them.
    kv.append(other.seq, [99] * (13 - length))
    kv.commit(one, 13)
    assert kv.lengths(other.seq) == (13, 13, length, length)
    assert kv.readable(other.seq) == length
    kv.check_integrity()
    kv.commit(other.seq, 13)
    assert kv.lookup([*PROMPT[:length], *[99] * (13 - length)]).tokens == 12
    for seq in (one, other.seq):
        kv.release(seq)
        kv.check_integrity()


@pytest.mark.scenario("V30")
def test_a_cut_of_the_first_cuts_forks_of_the_second_too() -> None:
    kv = manager(12)
    one, other = two(kv)
    fork = kv.fork(other.seq)
    kv.truncate(one.seq, 6)
    assert sorted(kv.take_changes().rewound) == sorted([other.seq, fork])
    assert kv.lengths(fork).slots == 4
    kv.check_integrity()
    kv.commit(one.seq, 6)
    assert kv.readable(fork) == 4
    for seq in (one.seq, other.seq, fork):
        kv.release(seq)
        kv.check_integrity()
    assert kv.counts().referenced == 0


def test_private_requests_are_not_joined_and_the_default_joins_nothing() -> None:
    kv = manager(12)
    kv.admit(PROMPT, write_cache=False)
    assert kv.admit(PROMPT, join=True).joined_tokens == 0
    assert kv.admit(PROMPT).joined_tokens == 0


@pytest.mark.scenario("S8", "MK-B15", "T44")
def test_a_duplicate_gives_way_before_its_block_is_freed() -> None:
    kv = manager(12, remap_duplicates=True)
    one, other = kv.admit(PROMPT).seq, kv.admit(PROMPT).seq
    own = kv.block_table(other).tolist()
    kv.commit(one, 13)
    tables = np.full((1, 8), -1, np.int32)
    tables[0, :4] = own
    out = kv.step(commit=([other], [13]), append=[other], tokens=[7], fence=1, tables=tables)
    want = kv.block_table(one).tolist()[:3] + own[3:]
    assert kv.block_table(other).tolist() == tables[0, :4].tolist() == want
    assert out.remapped == [(other, 0, i, want[i]) for i in range(3)]
    # The step in flight may still read the old blocks.
    assert kv.counts().free == 4
    kv.step(passed=1)
    assert kv.counts() == (7, 0, 5, 12)
    assert kv.stats()["duplicates"] == kv.stats()["remapped"] == 3
    kv.check_integrity()
    for seq in (one, other):
        kv.release(seq)
        kv.check_integrity()
    assert kv.counts() == (9, 3, 0, 12)


@pytest.mark.scenario("S8", "MK-B15")
def test_what_takes_the_place_of_a_duplicate_still_goes_before_what_it_follows() -> None:
    kv = manager(16)
    one, other = kv.admit(PROMPT).seq, kv.admit(PROMPT).seq
    kv.commit(one, 13)
    first, middle, last = kv.block_table(one)[:3].tolist()
    kv.release(one)
    kv.commit(other, 13)
    fork = kv.fork(other, upto=8)
    # Its third block gives way to the one that is cached, which counts as used last.
    kv.release(other)
    assert kv.eviction_order().tolist() == [last, middle, first]
    free = kv.counts().free
    for more, left in enumerate(([middle, first], [first], []), 1):
        assert kv.collect(free=free + more) == 1
        assert kv.eviction_order().tolist() == left
        kv.check_integrity()
    kv.release(fork)


@pytest.mark.scenario("V30", "S8")
def test_joined_blocks_give_way_in_both_tables() -> None:
    kv = manager(16, remap_duplicates=True)
    first = kv.admit(PROMPT).seq
    one, other = two(kv)
    kv.truncate(first, 12)
    kv.commit(first, 12)
    kv.commit(one.seq, 13)
    for grant in (one, other):
        assert kv.block_table(grant.seq).tolist()[:3] == kv.block_table(first).tolist()
        kv.check_integrity()
    for seq in (first, one.seq, other.seq):
        kv.release(seq)
    assert kv.counts() == (13, 3, 0, 16)


@pytest.mark.scenario("V30", "I13")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_nobody_joins_who_has_neither_tokens_nor_keys(index: str) -> None:
    """As an engine admits a dummy run by its length; the radix index has no tokens to compare."""
    kv = manager(12, index=index)
    dummy = kv.admit(None, num_tokens=13)
    other = kv.admit(Request(PROMPT, join=True))
    third = kv.admit(None, num_tokens=13, join=True)
    assert (other.joined_tokens, third.joined_tokens) == (0, 0)
    kv.check_integrity()
    for grant in (dummy, other, third):
        kv.commit(grant.seq, 13)
        kv.release(grant.seq)
        kv.check_integrity()
    assert kv.lookup(PROMPT).tokens == 12
