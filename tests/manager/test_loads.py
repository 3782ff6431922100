"""KV that comes from elsewhere, and KV that is read from elsewhere: loads and leases."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import Allocation, CapacityError, HandleError, KVCacheManager, Request, UsageError

from .helpers import cached, manager, state


def load(
    kv: KVCacheManager, prompt: list[int], external: int, **more: Any
) -> tuple[Allocation, int]:
    grant = kv.allocate(prompt, num_external_tokens=external, **more)
    assert grant.load is not None
    return grant, grant.load


PROMPT = list(range(13))


@pytest.mark.scenario("T1", "T2")
@pytest.mark.parametrize("good", [0, 1, 2, 3])
def test_part_of_a_load_counts_and_the_rest_is_computed(good: int) -> None:
    kv = manager(16)
    grant, ticket = load(kv, PROMPT, 12)
    cut = kv.loaded(ticket, good)
    assert cut == ([] if good == 3 else [grant.seq])
    assert kv.lookup(PROMPT).tokens == 4 * good
    slots = 13 if good == 3 else 4 * good
    assert kv.lengths(grant.seq) == (13, slots, 4 * good, 0)
    assert kv.counts().referenced == (slots + 3) // 4
    assert kv.stats.counters()["failed_copies"] == 3 - good
    kv.extend(grant.seq, 13)
    kv.commit(grant.seq, 13)
    assert kv.lookup(PROMPT).tokens == 12
    with pytest.raises(HandleError):
        kv.loaded(ticket, 0)
    kv.check_integrity()


@pytest.mark.scenario("T3")
def test_a_failed_load_is_not_tried_again_by_itself() -> None:
    kv = manager(16)
    grant, ticket = load(kv, PROMPT, 12)
    assert kv.failed(ticket) == [grant.seq]
    back = kv.preempt(grant.seq)
    grant = kv.allocate(back)
    assert (grant.cached_tokens, grant.load) == (0, None)
    assert kv.counts().referenced == 4


@pytest.mark.scenario("V12", "T4")
def test_pages_of_an_aborted_load_come_back_with_its_ticket_and_not_before() -> None:
    kv = manager(4)
    grant, ticket = load(kv, PROMPT, 12)
    kv.release(grant.seq)
    assert kv.counts() == (1, 0, 3, 4)
    with pytest.raises(CapacityError):
        kv.allocate([9] * 8)
    kv.failed(ticket)
    assert kv.counts() == (4, 0, 0, 4)
    kv.allocate([9] * 8)
    kv.check_integrity()


def test_a_sequence_comes_back_while_its_first_load_is_still_under_way() -> None:
    kv = manager(8)
    grant, ticket = load(kv, PROMPT, 12)
    pages = set(kv.block_table(grant.seq)[:3].tolist())
    back = kv.preempt(grant.seq)
    again = kv.allocate(back)
    assert not pages & set(kv.block_table(again.seq).tolist())
    kv.commit(again.seq, 13)
    assert kv.loaded(ticket, 3) == []
    assert kv.lengths(again.seq).committed == 13
    kv.check_integrity()
    kv.release(again.seq)
    assert kv.counts().referenced == 0


def test_a_load_counts_for_forks_too() -> None:
    kv = manager(16)
    grant, ticket = load(kv, PROMPT, 12)
    whole, cut = kv.fork(grant.seq), kv.fork(grant.seq)
    with pytest.raises(UsageError, match="block 1 is being loaded"):
        kv.truncate(cut, 6)
    kv.truncate(cut, 4)
    kv.release(grant.seq)
    assert kv.loaded(ticket, 2) == [whole]
    assert kv.lengths(whole) == (13, 8, 8, 0)
    assert kv.lengths(cut) == (4, 4, 4, 0)
    kv.release(whole)
    kv.release(cut)
    kv.check_integrity()
    assert kv.counts() == (14, 2, 0, 16)


@pytest.mark.scenario("T9", "T44")
def test_two_loads_of_one_prefix_leave_one_copy() -> None:
    kv = manager(16)
    (one, first), (two, second) = load(kv, PROMPT, 12), load(kv, PROMPT, 12)
    kv.done(second)
    kv.done(first)
    assert kv.stats.counters()["duplicates"] == 3
    for grant in (one, two):
        kv.release(grant.seq)
        kv.check_integrity()
    assert kv.counts() == (13, 3, 0, 16)


@pytest.mark.scenario("VT34", "I3")
def test_what_cannot_be_loaded_is_refused_and_changes_nothing() -> None:
    kv = manager(4)
    cached(kv, PROMPT[:8])
    before = state(kv)
    for external in (3, 8, 400, 2**32 - 4):
        with pytest.raises(UsageError, match="4 tokens at the most after 8 cached ones"):
            kv.allocate(PROMPT, num_external_tokens=external)
    assert state(kv) == before
    blocker = kv.allocate([9] * 5).seq
    blocked = state(kv, [blocker])
    for _ in range(3):
        with pytest.raises(CapacityError):
            kv.allocate(PROMPT, num_external_tokens=4)
    assert state(kv, [blocker]) == blocked
    assert kv.counts() == (0, 2, 2, 4)
    kv.check_integrity()
    kv.release(blocker)
    assert kv.lookup(PROMPT).tokens == 8
    _, ticket = load(kv, PROMPT, 4)
    assert kv.counts() == (0, 0, 4, 4)
    kv.done(ticket)
    kv.check_integrity()


@pytest.mark.scenario("T15")
def test_owners_return_to_their_base_however_often() -> None:
    kv = manager(16)
    for turn in range(50):
        grant, ticket = load(kv, [turn, *PROMPT[1:]], 12)
        lease = None
        if turn % 3:
            kv.loaded(ticket, turn % 4)
            lease = kv.pins.lease(grant.seq, kv.lengths(grant.seq).committed)
        kv.release(grant.seq)
        if lease is not None:
            kv.done(lease)
        else:
            kv.failed(ticket)
        assert kv.counts().referenced == 0
        kv.check_integrity()


def test_prefix_caching_may_be_off() -> None:
    kv = manager(8, prefix_caching=False)
    grant, ticket = load(kv, PROMPT, 12)
    kv.done(ticket)
    assert kv.lengths(grant.seq).committed == 12
    assert kv.lookup(PROMPT).tokens == 0


def test_a_load_costs_no_tokens_of_the_budget() -> None:
    kv = manager(16)
    out = kv.step(
        allocate=[Request(PROMPT, num_external_tokens=12), Request([9] * 5)], token_budget=6
    )
    assert [grant and grant.granted_tokens for grant in out.allocations] == [13, 5]


# --- leases ---------------------------------------------------------------------------------------


@pytest.mark.scenario("T4", "T16")
@pytest.mark.parametrize("first", ["lease", "sequence"])
def test_a_lease_and_its_sequence_end_in_any_order(first: str) -> None:
    kv = manager(4)
    seq = kv.allocate(PROMPT).seq
    kv.commit(seq, 13)
    lease = kv.pins.lease(seq, 10)
    for end in ("lease", "sequence") if first == "lease" else ("sequence", "lease"):
        assert kv.counts().referenced >= 3
        if end == "lease":
            kv.done(lease)
        else:
            kv.release(seq)
        kv.check_integrity()
    assert kv.counts() == (1, 3, 0, 4)
    with pytest.raises(HandleError):
        kv.done(lease)


@pytest.mark.scenario("T4", "I4")
def test_what_is_leased_is_written_by_nobody() -> None:
    kv = manager(8)
    seq = kv.allocate([1] * 6).seq
    kv.commit(seq, 6)
    lease = kv.pins.lease(seq, 6)
    tail = int(kv.block_table(seq)[1])
    kv.append(seq, [2])
    assert kv.block_table(seq)[1] != tail
    plan = kv.take_plan()
    assert plan
    kv.done(plan.ticket)
    kv.release(seq)
    assert kv.counts().referenced == 2
    kv.done(lease)
    assert kv.counts().referenced == 0
    other = kv.allocate([3] * 6).seq
    kv.commit(other, 4)
    with pytest.raises(UsageError, match="upto = 5: must be at most 4, the tokens computed"):
        kv.pins.lease(other, 5)


@pytest.mark.scenario("T17", "SA-B3")
def test_with_all_leased_there_is_no_room_until_one_ends() -> None:
    kv = manager(3)
    leases = []
    for text in ([1] * 4, [2] * 4, [3] * 4):
        seq = kv.allocate(text).seq
        kv.commit(seq, 4)
        leases.append(kv.pins.lease(seq, 4))
        kv.release(seq)
    assert kv.counts() == (0, 0, 3, 3)
    assert kv.evict_until(3) == 0
    with pytest.raises(CapacityError, match="only 0 are free or evictable of 3"):
        kv.allocate([4] * 4)
    kv.done(leases[1])
    grant = kv.allocate([4] * 4)
    assert kv.block_table(grant.seq).tolist() == [1]
    assert kv.lookup([1] * 5).tokens == kv.lookup([3] * 5).tokens == 4


@pytest.mark.scenario("T14")
def test_a_lookup_pins_nothing_and_a_request_only_while_it_lives() -> None:
    kv = manager(3)
    cached(kv, PROMPT[:12])
    assert kv.lookup(PROMPT).tokens == 12
    cached(kv, [9] * 12)
    assert kv.lookup(PROMPT).tokens == 0
    hit = kv.allocate([9] * 9, chunk=0)
    with pytest.raises(CapacityError):
        kv.allocate([8] * 8)
    kv.release(hit.seq)
    kv.allocate([8] * 8)
