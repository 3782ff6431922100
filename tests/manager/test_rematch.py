"""A sequence that has computed nothing takes what others have cached since; joins cover loads."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import KVCacheManager, UsageError
from kvframe.stats import Rebuild, redrive

from .helpers import cached, manager

PROMPT = list(range(21))


def both(groups: Any = (), **cache: Any) -> tuple[KVCacheManager, int]:
    """A manager in which a request came in before what it wants was cached."""
    kv = manager(32, groups=groups, **cache)
    first = kv.allocate(PROMPT).seq
    late = kv.allocate(PROMPT).seq
    kv.commit(first, 21)
    kv.release(first)
    return kv, late


@pytest.mark.scenario("F31")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_it_trades_its_blocks_for_what_is_cached_by_now(index: str) -> None:
    kv, late = both(index=index)
    mine = kv.block_table(late).tolist()
    before = kv.stats.counters()
    assert kv.counts() == (21, 5, 6, 32)
    assert kv.rematch(late) == 20
    assert kv.lengths(late) == (21, 21, 20, 20)
    assert kv.counts() == (26, 0, 6, 32)
    assert set(kv.block_table(late).tolist()) & set(mine) == {mine[5]}
    assert kv.inspect.num_readable_tokens(late) == 20
    assert kv.stats.request_usage(late).read == 20
    after = kv.stats.counters()
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert changed == {
        "hit_tokens": 20,
        "hit_blocks": 5,
        "requests_with_hit": 1,
        "hit_share_ppm": 20 * 1_000_000 // 21,
        "freed": 5,
    }
    # Once more, there is nothing more.
    assert kv.rematch(late) == 20
    assert kv.stats.counters() == after
    kv.commit(late, 21)
    with pytest.raises(UsageError, match="it has computed 1 tokens"):
        kv.rematch(late)
    kv.release(late)
    kv.check_integrity()


@pytest.mark.scenario("F31")
def test_a_chunk_may_grow_past_its_slots() -> None:
    kv = manager(32)
    first, late = kv.allocate(PROMPT).seq, kv.allocate(PROMPT, chunk=4).seq
    kv.commit(first, 21)
    kv.release(first)
    assert kv.lengths(late).slots == 4
    assert kv.rematch(late) == 20
    assert kv.lengths(late) == (21, 20, 20, 20)
    kv.extend(late, 21)
    kv.commit(late, 21)
    kv.check_integrity()


@pytest.mark.scenario("F31")
def test_a_resumed_request_counts_apart_and_is_matched_at_each_try() -> None:
    kv = manager(32)
    back = kv.preempt(kv.allocate(PROMPT).seq)
    late = kv.allocate(back).seq
    again = kv.preempt(kv.allocate(PROMPT).seq)
    cached(kv, PROMPT)
    hit_tokens = kv.stats.counters()["hit_tokens"]
    assert kv.rematch(late) == 20
    assert (kv.stats.counters()["resumed_hit_tokens"], kv.stats.counters()["hit_tokens"]) == (
        20,
        hit_tokens,
    )
    assert kv.allocate(again).cached_tokens == 20


@pytest.mark.scenario("F31")
def test_the_log_says_it_and_redriven_says_the_same() -> None:
    kv, late = both(event_log=True)
    kv.rematch(late)
    other = kv.allocate([50, *PROMPT], chunk=4).seq
    cached(kv, [50, *PROMPT])
    kv.rematch(other, fence=1)
    kv.commit(late, 21)
    log, fresh = kv.log.take(), manager(32, event_log=True)
    redrive(log, fresh)
    assert fresh.counts() == kv.counts()
    rebuilt = Rebuild(32, 4)
    rebuilt.feed(log)
    assert rebuilt.counts() == kv.counts()
    told = rebuilt.stats()
    assert {name: kv.stats.counters()[name] for name in told} == told
    assert rebuilt.lengths[other] == kv.lengths(other).slots


# --- loads ----------------------------------------------------------------------------------------


@pytest.mark.scenario("F31")
def test_a_load_is_joined_and_lands_for_both() -> None:
    kv = manager(32)
    loads = kv.allocate(PROMPT, num_external_tokens=12)
    joins = kv.allocate(PROMPT, join=True)
    assert loads.load is not None
    assert (joins.cached_tokens, joins.joined_tokens, joins.load) == (0, 12, None)
    tables = [kv.block_table(grant.seq).tolist() for grant in (loads, joins)]
    assert tables[0][:3] == tables[1][:3]
    assert not set(tables[0][3:]) & set(tables[1][3:])
    assert kv.inspect.num_readable_tokens(joins.seq) == 0
    kv.commit(joins.seq, 21)
    assert kv.lookup(PROMPT).tokens == kv.inspect.num_readable_tokens(joins.seq) == 0
    kv.done(loads.load)
    assert kv.lookup(PROMPT).tokens == 20
    assert kv.inspect.num_readable_tokens(joins.seq) == 21
    assert (kv.stats.request_usage(joins.seq).joined, kv.stats.request_usage(joins.seq).loaded) == (
        12,
        0,
    )
    assert kv.stats.request_usage(loads.seq).loaded == kv.stats.counters()["loaded_tokens"] == 12
    for grant in (loads, joins):
        kv.release(grant.seq)
        kv.check_integrity()


@pytest.mark.scenario("F31")
@pytest.mark.parametrize("good", [0, 1, 2])
@pytest.mark.parametrize("ends", [False, True])
def test_a_load_that_fails_cuts_who_joined_it(good: int, ends: bool) -> None:
    kv = manager(32)
    loads = kv.allocate(PROMPT, num_external_tokens=12)
    joins = kv.allocate(PROMPT, join=True)
    assert loads.load is not None
    if ends:
        kv.release(loads.seq)
    kv.commit(joins.seq, 21)
    cut = kv.loaded(loads.load, good) if good else kv.failed(loads.load)
    assert cut == ([joins.seq] if ends else sorted([loads.seq, joins.seq]))
    assert kv.lengths(joins.seq) == (21, 4 * good, 4 * good, 0)
    kv.extend(joins.seq, 21)
    kv.commit(joins.seq, 21)
    assert kv.lookup(PROMPT).tokens == 20
    kv.check_integrity()


@pytest.mark.scenario("F31")
def test_the_longest_load_is_joined_and_more_can_be_brought_behind_it() -> None:
    kv = manager(64)
    short, long = (
        kv.allocate(PROMPT, num_external_tokens=8),
        kv.allocate(PROMPT, num_external_tokens=12),
    )
    grant = kv.allocate(PROMPT, join=True, external_until=20)
    assert (grant.joined_tokens, grant.external_tokens) == (12, 8)
    assert grant.load is not None
    kv.done(grant.load)
    assert kv.inspect.num_readable_tokens(grant.seq) == 0
    for one in (short, long):
        assert one.load is not None
        kv.done(one.load)
    assert kv.inspect.num_readable_tokens(grant.seq) == 20
    assert (kv.stats.request_usage(grant.seq).joined, kv.stats.request_usage(grant.seq).loaded) == (
        12,
        8,
    )
    kv.check_integrity()
