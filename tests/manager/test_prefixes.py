"""Prefixes: shared explicitly, read within bounds, found to a part of a block, with extras."""

from __future__ import annotations

import pytest

from kvframe import CapacityError, MMItem, StaleHandleError, UsageError

from .helpers import cached, manager, state

PROMPT = list(range(13))


@pytest.mark.scenario("FE-B25", "FE-B9", "FE-B15", "FE-B16")
@pytest.mark.parametrize("copy", [False, True])
def test_a_prefix_is_shared_by_a_sequence_of_its_own(copy: bool) -> None:
    kv = manager(8)
    seq = kv.admit(PROMPT).seq
    kv.commit(seq, 10)
    child = kv.fork(seq, upto=6, copy=copy)
    assert child != seq
    assert kv.lengths(child) == (6, 6, 6, 0)
    assert kv.counts().referenced == 4 + copy
    assert (kv.take_plan() is not None) == copy
    kv.release(seq)
    with pytest.raises(StaleHandleError):
        kv.fork(seq, upto=0)
    kv.check_integrity()
    kv.append(child, [50, 60])
    kv.check_integrity()
    kv.take_plan()
    for ticket in kv.tickets():
        kv.done(ticket.ticket)
    kv.release(child)
    assert kv.counts().referenced == 0
    kv.check_integrity()


@pytest.mark.scenario("FE-B25", "I3")
def test_a_prefix_that_cannot_be_shared_changes_nothing() -> None:
    kv = manager(4)
    seq = kv.admit(PROMPT).seq
    kv.commit(seq, 10)
    before = state(kv, [seq])
    with pytest.raises(UsageError, match="must be at most 10, the tokens computed"):
        kv.fork(seq, upto=11)
    with pytest.raises(CapacityError):
        kv.fork(seq, upto=6, copy=True)
    with pytest.raises(UsageError, match="needs upto"):
        kv.fork(seq, copy=True)
    assert state(kv, [seq]) == before


@pytest.mark.scenario("I15", "FE-B18", "MK-B12")
def test_reading_ends_where_the_computed_tokens_do() -> None:
    kv = manager(8)
    seq = kv.admit(PROMPT).seq
    kv.commit(seq, 10)
    blocks, offset, last = kv.pages(seq, 1, 10)
    assert (blocks.tolist(), offset, last) == (kv.block_table(seq)[:3].tolist(), 1, 2)
    assert kv.pages(seq, 4, 8)[1:] == (0, 4)
    for start, stop in ((0, 11), (5, 4)):
        with pytest.raises(UsageError, match="the first 10 tokens are computed"):
            kv.pages(seq, start, stop)
    loading = kv.admit([9] * 13, num_external_tokens=8)
    kv.commit(loading.seq, 13)
    assert kv.readable(loading.seq) == 0
    assert loading.load is not None
    kv.done(loading.load)
    assert kv.readable(loading.seq) == 13


@pytest.mark.scenario("FE-B22")
def test_extras_are_of_exactly_their_prompt_and_die_with_its_block() -> None:
    kv = manager(4)
    seq = kv.admit(PROMPT).seq
    with pytest.raises(UsageError, match="findable"):
        kv.attach(seq, 7)
    kv.commit(seq, 13)
    assert kv.attach(seq, 7) is None
    assert kv.attach(seq, 8) == 7
    assert kv.attach(seq, 9, upto=12) is None
    assert kv.lookup(PROMPT).attached == 8
    assert kv.lookup(PROMPT[:12]).attached == 9
    for other in ([*PROMPT, 1], PROMPT[:11], [*PROMPT[:12], 99]):
        assert kv.lookup(other).attached is None
    assert kv.lookup(PROMPT, cache_salt="x").attached is None
    kv.release(seq)
    again = kv.admit(PROMPT)
    assert again.attached == 8
    kv.release(again.seq)
    cached(kv, [50] * 12)
    assert sorted(kv.take_dropped()) == [8, 9]
    assert kv.take_dropped() == []
    seq = kv.admit([50] * 12).seq
    kv.attach(seq, 3, upto=8)
    kv.clear_cache()
    assert kv.take_dropped() == [3]


@pytest.mark.scenario("V34", "S29", "VT2", "V20")
def test_usage_says_what_a_request_read_and_created() -> None:
    kv = manager(16)
    cached(kv, PROMPT[:8])
    seq = kv.admit(PROMPT).seq
    kv.commit(seq, 13)
    assert kv.request_usage(seq) == (8, 4, 0, 0, False)
    again = kv.admit(kv.preempt(seq)).seq
    assert kv.request_usage(again) == (12, 0, 0, 0, True)
    assert kv.stats()["resumed_hit_tokens"] == 12
    assert kv.stats()["hit_tokens"] == 8
    private = kv.admit(PROMPT, read_cache=False).seq
    kv.commit(private, 13)
    assert kv.request_usage(private) == (0, 0, 0, 0, False)
    hidden = kv.admit([7] * 13, write_cache=False).seq
    kv.commit(hidden, 13)
    assert kv.request_usage(hidden).created == kv.lookup([7] * 13).tokens == 0


@pytest.mark.scenario("VT50", "VT51", "VT52", "MK-1")
def test_a_partial_block_is_found_and_copied() -> None:
    kv = manager(8, partial_hits=True)
    cached(kv, PROMPT[:11])
    assert kv.counts() == (5, 3, 0, 8)
    assert kv.lookup(PROMPT).tokens == 11
    assert kv.lookup([*PROMPT[:10], 99, 98]).tokens == 8
    assert kv.lookup(PROMPT[:11]).tokens == 8
    grant = kv.admit(PROMPT)
    assert grant.cached_tokens == 11
    plan = kv.take_plan()
    assert plan is not None
    source, target, tokens, _ = plan.copies.tolist()[0]
    assert (target, tokens) == (int(kv.block_table(grant.seq)[2]), 3)
    assert source != target
    # Both ends stay until the copy is settled; what is filled is not found before.
    kv.commit(grant.seq, 13)
    kv.release(grant.seq)
    assert {source, target} <= {b for b in range(8) if kv.owners(b).tickets}
    kv.check_integrity()
    kv.done(plan.ticket)
    assert kv.counts().referenced == 0
    kv.check_integrity()


@pytest.mark.scenario("VT53", "VT54", "T35")
def test_a_partial_block_becomes_whole_in_its_copy_and_goes_with_a_reset() -> None:
    kv = manager(8, partial_hits=True)
    cached(kv, PROMPT[:11])
    seq = kv.admit(PROMPT).seq
    plan = kv.take_plan()
    assert plan is not None
    kv.done(plan.ticket)
    kv.commit(seq, 13)
    assert kv.lookup(PROMPT).tokens == 12
    kv.release(seq)
    kv.check_integrity()
    assert kv.lookup([*PROMPT, 13]).tokens == 13
    kv.clear_cache()
    assert kv.lookup([*PROMPT, 13]).tokens == 0
    assert kv.counts().free == 8


def test_a_failed_copy_of_a_partial_block_is_no_hit() -> None:
    kv = manager(8, partial_hits=True)
    cached(kv, PROMPT[:11])
    seq = kv.admit(PROMPT).seq
    plan = kv.take_plan()
    assert plan is not None
    assert kv.failed(plan.ticket) == [seq]
    assert kv.lengths(seq) == (13, 8, 8, 8)
    kv.check_integrity()


@pytest.mark.scenario("F37")
@pytest.mark.parametrize("partial", [False, True])
def test_a_prefix_below_a_block_may_have_a_handle(partial: bool) -> None:
    kv = manager(4, partial_hits=partial)
    seq = kv.admit(PROMPT[:3]).seq
    with pytest.raises(UsageError, match="findable"):
        kv.attach(seq, 1, upto=0)
    kv.commit(seq, 3)
    assert kv.attach(seq, 1) is None
    assert kv.attach(seq, 2, upto=2) is None
    assert kv.attach(seq, 3) == 1
    # Exactly these tokens, salt and all; what a hit finds of them is told apart.
    assert [kv.lookup(PROMPT[:n]).attached for n in range(1, 5)] == [None, 2, 3, None]
    assert kv.lookup(PROMPT[:3], cache_salt="x").attached is None
    assert kv.lookup([*PROMPT[:2], 99]).attached is None
    assert kv.lookup(PROMPT[:3], mm_items=[MMItem(0, 3, b"image")]).attached is None
    kv.release(seq)
    assert kv.admit(PROMPT[:3]).attached == 3
    assert kv.admit(PROMPT[:3], read_cache=False).attached is None
    kv.check_integrity()
    assert kv.take_dropped() == []
    kv.clear_cache()
    assert kv.take_dropped() == [3, 2]
    assert kv.lookup(PROMPT[:3]).attached is None


@pytest.mark.scenario("F37")
def test_handles_below_a_block_are_as_many_as_blocks() -> None:
    kv = manager(3)
    for token in range(5):
        seq = kv.admit([token]).seq
        kv.commit(seq, 1)
        kv.attach(seq, token)
        kv.release(seq)
    assert kv.take_dropped() == [0, 1]
    assert [kv.lookup([token]).attached for token in range(5)] == [None, None, 2, 3, 4]
    private = kv.admit([7], write_cache=False).seq
    kv.commit(private, 1)
    with pytest.raises(UsageError, match="findable"):
        kv.attach(private, 7)
