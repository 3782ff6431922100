"""Steps in flight: slots before token ids are known, and blocks that wait for a step to pass."""

from __future__ import annotations

import pytest

from kvframe import NeverFitsError, Request, StaleHandleError, UsageError

from .helpers import manager, state

# --- tokens without ids ---------------------------------------------------------------------------


def test_slots_come_before_ids_and_ids_before_a_commit() -> None:
    kv = manager()
    seq = kv.allocate([1] * 6).seq
    kv.commit(seq, 6)
    kv.append_placeholders(seq)
    kv.append_placeholders(seq, 3)
    assert kv.lengths(seq) == (10, 10, 6, 0)
    assert kv.block_table(seq).size == 3
    kv.fill_placeholders(seq, [2, 3])
    kv.commit(seq, 8)
    assert kv.lookup([1] * 6 + [2, 3, 9]).tokens == 8
    before = state(kv, [seq])
    with pytest.raises(UsageError, match="only the ids of 8 tokens are known"):
        kv.commit(seq, 9)
    with pytest.raises(UsageError, match="the ids of 2 tokens are missing"):
        kv.fill_placeholders(seq, [4, 5, 6])
    with pytest.raises(UsageError, match="the ids of 2 tokens before are not known"):
        kv.append(seq, [4])
    assert state(kv, [seq]) == before
    kv.fill_placeholders(seq, [4, 5])
    kv.append(seq, [6, 7])
    kv.commit(seq, 12)
    assert kv.lookup([1] * 6 + [2, 3, 4, 5, 6, 7, 0]).tokens == 12
    kv.check_integrity()


def test_a_refused_append_of_unknown_ids_leaves_the_sequence() -> None:
    kv = manager(2)
    seq = kv.allocate([1] * 6).seq
    before = state(kv, [seq])
    for count in (3, 2**32 - 1):
        with pytest.raises(NeverFitsError):
            kv.append_placeholders(seq, count)
    assert state(kv, [seq]) == before
    kv.append_placeholders(seq, 2)


@pytest.mark.scenario("S3")
def test_a_cut_takes_unknown_ids_first() -> None:
    kv = manager()
    seq = kv.allocate([1] * 4).seq
    kv.append(seq, [2, 3])
    kv.append_placeholders(seq, 3)
    kv.truncate(seq, 7)
    with pytest.raises(UsageError, match="ids of 1 tokens"):
        kv.fill_placeholders(seq, [4, 5])
    kv.truncate(seq, 5)
    kv.append(seq, [9, 9, 9])
    kv.commit(seq, 8)
    assert kv.lookup([1, 1, 1, 1, 2, 9, 9, 9, 0]).tokens == 8


def test_forks_are_filled_each_for_itself() -> None:
    kv = manager()
    one = kv.allocate([1] * 6).seq
    kv.append_placeholders(one, 2)
    two = kv.fork(one)
    kv.fill_placeholders(one, [2, 3])
    kv.commit(one, 8)
    with pytest.raises(UsageError, match="fill the others first"):
        kv.commit(two, 8)
    kv.truncate(two, 6)
    kv.append(two, [7, 7])
    kv.commit(two, 8)
    assert kv.block_table(one)[1] != kv.block_table(two)[1]
    assert kv.lookup([1] * 6 + [2, 3, 0]).tokens == 8
    kv.check_integrity()


@pytest.mark.scenario("V20", "IL-B12")
def test_preemption_forgets_what_is_unknown_and_no_more() -> None:
    kv = manager()
    seq = kv.allocate([1] * 8, max_seq_len=20).seq
    kv.commit(seq, 8)
    kv.append(seq, [2])
    kv.append_placeholders(seq, 2)
    request = kv.preempt(seq)
    assert len(request) == 9
    with pytest.raises(StaleHandleError):
        kv.fill_placeholders(seq, [3])
    grant = kv.allocate(request)
    assert (grant.cached_tokens, grant.prompt_tokens) == (8, 9)
    stats = kv.stats.counters()
    assert (stats["requests"], stats["hit_tokens"]) == (1, 0)
    assert (stats["resumed"], stats["resumed_hit_tokens"]) == (1, 8)
    kv.append_placeholders(grant.seq)
    kv.fill_placeholders(grant.seq, [5])
    kv.commit(grant.seq, 10)


# --- blocks behind a fence ------------------------------------------------------------------------


@pytest.mark.scenario("VT58", "V23")
def test_a_preempted_sequence_makes_room_once_its_step_has_passed() -> None:
    kv = manager(4)
    victim = kv.allocate([1] * 8).seq
    runs = kv.allocate([2] * 4).seq
    kv.commit(victim, 8)
    request = kv.preempt(victim, fence=7)
    # No room yet, and two blocks on their way are all that is needed: wait, and do not preempt on.
    assert kv.counts() == (1, 0, 3, 4)
    assert kv.stats.counters()["waiting_blocks"] == 2
    assert kv.pressure.preemption_order([runs], usage=2 / 4) == []
    assert kv.pressure.preempt_to(2 / 4, [runs], fence=7) == []
    assert kv.lengths(runs).slots == 4
    for passed in (None, 6):
        out = kv.step(passed=passed, append=[runs], counts=[5], tokens=[3] * 5)
        assert [what for what, *_ in out.refused] == ["append"]
    out = kv.step(passed=7, append=[runs], counts=[5], tokens=[3] * 5)
    assert out.refused == []
    assert kv.stats.counters()["waiting_blocks"] == 0
    assert len(request) == 8
    kv.check_integrity()


@pytest.mark.scenario("VT57")
def test_deferred_frees_drain_in_order() -> None:
    kv = manager(6)
    seqs = [kv.allocate([i] * 8).seq for i in (1, 2, 3)]
    for fence, seq in enumerate(seqs, 1):
        kv.commit(seq, 8)
        kv.release(seq, fence=fence)
    assert kv.counts() == (0, 0, 6, 6)
    available = []
    for passed in range(4):
        kv.step(passed=passed)
        available.append(kv.counts().cached)
        kv.check_integrity()
    assert available == [0, 2, 4, 6]
    # The first to pass is the first to be evicted, tail first.
    assert kv.inspect.eviction_order().tolist() == [1, 0, 3, 2, 5, 4]


def test_what_a_step_cuts_waits_too() -> None:
    kv = manager(4)
    seq = kv.allocate([1] * 4).seq
    kv.append(seq, [2] * 8)
    kv.step(truncate=([seq], [5]), fence=3)
    assert (kv.counts().free, kv.stats.counters()["waiting_blocks"]) == (1, 1)
    kv.truncate(seq, 4)
    assert kv.counts().free == 2, "without a fence it is given up at once"
    kv.step(passed=3)
    assert kv.counts().free == 3
    kv.check_integrity()


def test_a_fence_that_has_passed_holds_nothing() -> None:
    kv = manager(4)
    one, two = kv.allocate([1] * 8).seq, kv.allocate([2] * 8).seq
    kv.step(release=[one], fence=5, passed=5)
    kv.release(two, fence=4)
    assert kv.counts().free == 4


@pytest.mark.scenario("V24", "U-12")
def test_the_preempted_come_first_again() -> None:
    kv = manager(4)
    old, new = kv.allocate([1] * 8).seq, kv.allocate([2] * 8).seq
    assert [v.seq for v in kv.pressure.preemption_order([old, new], "last-admitted")] == [new, old]
    back = kv.preempt(new)
    newer = kv.allocate([3] * 4).seq
    out = kv.step(allocate=[back])
    assert out.allocations == [None]
    # One that would fit stands behind it, and is not tried.
    later = Request([4] * 4)
    out = kv.step(allocate=[back, later])
    assert out.allocations == [None, None]
    assert [place for _, place, _ in out.refused] == [0]
    out = kv.step(release=[newer], allocate=[back, later])
    assert [grant is not None for grant in out.allocations] == [True, False]


@pytest.mark.scenario("T33")
def test_a_resumed_sequence_counts_what_its_admission_found() -> None:
    kv = manager(8)
    seq = kv.allocate([1] * 13).seq
    kv.commit(seq, 5)
    back = kv.preempt(seq)
    assert kv.lookup([1] * 13).tokens == 4
    other = kv.allocate([1] * 13).seq
    kv.commit(other, 12)
    # Looked up as 4 before; by now it is 12, and one token is left to schedule.
    out = kv.step(allocate=[back], token_budget=4)
    (grant,) = out.allocations
    assert grant is not None
    assert (grant.cached_tokens, grant.granted_tokens) == (12, 13)
    kv.check_integrity()
