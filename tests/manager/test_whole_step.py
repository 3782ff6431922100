"""What else a step takes: fills, loads, forks, preemption, appends without ids, one budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import KVFrameError, Reason, Request, StaleHandleError, UsageError

from .helpers import cached, manager, state


@pytest.mark.scenario("V24", "V20", "CB-B12")
def test_the_preempted_come_back_first() -> None:
    kv = manager(6)
    old, new = kv.allocate([1] * 8).seq, kv.allocate([2] * 8).seq
    kv.step(commit=([old, new], [8, 8]))
    out = kv.step(preempt=[new], append=[old], counts=[4], tokens=[9] * 4)
    (resumed,) = out.preempted
    assert out.refused == []
    assert len(resumed) == 8
    with pytest.raises(StaleHandleError):
        kv.lengths(new)
    later = Request([3] * 8)
    out = kv.step(release=[old], allocate=[resumed, later])
    assert [grant and grant.cached_tokens for grant in out.allocations] == [4, 0]
    assert kv.stats.counters()["resumed"] == 1
    kv.check_integrity()


@pytest.mark.scenario("V23")
def test_a_preempted_block_waits_for_the_steps_fence() -> None:
    kv = manager(2)
    seq = kv.allocate([1] * 8).seq
    out = kv.step(preempt=[seq], fence=3)
    assert len(out.preempted[0]) == 8
    assert kv.counts().available == 0
    kv.step(passed=3)
    assert kv.counts().available == 2


def test_a_fork_is_of_the_sequence_as_the_step_leaves_it() -> None:
    kv = manager(8)
    parent = kv.allocate([1] * 6).seq
    out = kv.step(commit=([parent], [6]), fork=[parent, parent], release=[parent])
    assert [tuple(kv.lengths(seq)) for seq in out.forks] == [(6, 6, 6, 0)] * 2
    one, two = out.forks
    out = kv.step(append=[one, two], tokens=[2, 3])
    assert out.plan
    assert len(out.plan.copies) == 1
    kv.check_integrity()


def test_slots_come_first_and_ids_with_a_later_step() -> None:
    kv = manager(8)
    seqs = [kv.allocate([i] * 4).seq for i in (1, 2)]
    slots = np.zeros(3, np.int64)
    kv.step(append=seqs, counts=[2, 1], slots=slots)
    assert (slots >= 0).all()
    assert [kv.lengths(seq).known for seq in seqs] == [6, 5]
    before = state(kv, seqs)
    for fill in ((seqs, [1, 3], [7] * 4), (seqs, [7]), ([seqs[0]] * 2, [7, 7]), 5, (1, 2, 3, 4)):
        with pytest.raises(UsageError, match="fill"):
            kv.step(fill=fill)  # type: ignore[arg-type]
    assert state(kv, seqs) == before
    # Ids, what they let be committed, and the next slots, in one step.
    kv.step(fill=(seqs, [2, 1], [7, 8, 9]), commit=(seqs, [6, 5]), append=seqs)
    kv.step(fill=(seqs, [5, 6]), commit=(seqs, [7, 6]), append=seqs, tokens=[1, 2])
    kv.step(commit=([seqs[0]], [8]))
    assert kv.lookup([1] * 4 + [7, 8, 5, 1, 0]).tokens == 8
    kv.check_integrity()


def test_a_load_that_came_in_part_cuts_its_sequence() -> None:
    kv = manager(8)
    grant = kv.allocate(list(range(12)), num_external_tokens=8)
    whole = kv.allocate(list(range(50, 62)), num_external_tokens=8)
    assert grant.load is not None
    assert whole.load is not None
    before = state(kv, [grant.seq])
    for wrong in (([grant.load], [3]), ([99], [1]), ([grant.load] * 2, [1, 1])):
        with pytest.raises(KVFrameError):
            kv.step(loaded=wrong)
    assert state(kv, [grant.seq]) == before
    out = kv.step(loaded=([grant.load, whole.load], [1, 2]), extend=([whole.seq], [12]))
    assert out.rewound == [grant.seq]
    assert kv.lengths(grant.seq)[1:3] == (4, 4)
    assert kv.lengths(whole.seq).committed == 8
    kv.check_integrity()


def test_one_budget_for_decoding_chunks_and_admissions() -> None:
    kv = manager(32)
    runs = [kv.allocate([i] * 4).seq for i in (1, 2)]
    chunked = [kv.allocate([i] * 20, chunk=4).seq for i in (3, 4)]
    new = [Request([5] * 9), Request([6] * 9)]
    out = kv.step(
        append=runs,
        counts=[2, 2],
        tokens=[7] * 4,
        extend=(chunked, [20, 20]),
        allocate=new,
        batch_tokens=26,
    )
    assert out.extended.tolist() == [20, 10]
    assert out.allocations == [None, None]
    assert out.refused == []
    assert out.reasons.tolist() == [0, 0, 0, 0, Reason.NOT_TRIED, Reason.NOT_TRIED]
    out = kv.step(extend=([chunked[1]], [20]), allocate=new, batch_tokens=12)
    first, second = out.allocations
    assert out.extended.tolist() == [20]
    assert first is not None
    assert (first.granted_tokens, second) == (2, None)
    out = kv.step(append=runs, counts=[3, 1], tokens=[7] * 4, batch_tokens=2)
    assert out.reasons.tolist() == [Reason.NOT_TRIED, Reason.GRANTED]
    assert [place for _, place, _ in out.refused] == [0]


def test_reasons_are_told_as_numbers() -> None:
    kv = manager(4)
    one, two = (kv.allocate([i] * 4).seq for i in (1, 2))
    out = kv.step(
        append=[one, two],
        counts=[9, 1],
        tokens=[7] * 10,
        allocate=[Request([3] * 17), Request([4] * 8), Request([5] * 4)],
        skip_refused=True,
    )
    assert out.reasons.dtype == np.uint8
    assert [Reason(code) for code in out.reasons.tolist()] == [
        Reason.NO_CAPACITY,
        Reason.GRANTED,
        Reason.NEVER_FITS,
        Reason.NO_CAPACITY,
        Reason.GRANTED,
    ]


def test_rows_of_a_batch_with_places_of_its_own() -> None:
    kv = manager(8)
    seqs = [kv.allocate([i] * 4).seq for i in (1, 2)]
    tables = np.full((5, 3), -7, np.int32)
    kv.step(append=seqs, tokens=[8, 9], tables=tables, rows=[4, 1])
    assert tables[[4, 1], 1].tolist() == [kv.block_table(seq)[1] for seq in seqs]
    tables[[4, 1], 1] = -7
    assert (tables == -7).all()
    before = state(kv, seqs)
    for rows in ([0], [0, 5], [3, 3], [2**40, 1]):
        with pytest.raises(UsageError, match="rows"):
            kv.step(append=seqs, tokens=[8, 9], tables=tables, rows=rows)
    with pytest.raises(UsageError, match=f"rows has 3 twice.*{seqs[0]} and {seqs[1]}"):
        kv.step(append=seqs, tokens=[8, 9], tables=tables, rows=[3, 3])
    assert state(kv, seqs) == before


@pytest.mark.parametrize("name", ["loaded", "truncate", "commit", "extend"])
@pytest.mark.parametrize("value", [[1], 3, (1, 2), ([1], [1], [1]), ([1], ["x"])])
@pytest.mark.scenario("I13")
def test_what_is_no_pair_of_arrays_is_told_so(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        manager().step(**{name: value})


@pytest.mark.scenario("VT49")
def test_lookahead_takes_slots_and_gives_them_back() -> None:
    kv = manager(4)
    seq = kv.allocate([1] * 8, chunk=4).seq
    kv.extend(seq, 0, lookahead=6)
    assert kv.lengths(seq)[:2] == (8, 6)
    kv.extend(seq, 0, lookahead=13)
    assert kv.lengths(seq)[:2] == (13, 13)
    assert kv.counts().free == 0
    before = state(kv, [seq])
    for until in (17, 12):
        with pytest.raises(KVFrameError):
            kv.extend(seq, 0, lookahead=until)
    assert state(kv, [seq]) == before
    kv.fill_placeholders(seq, [2])
    kv.truncate(seq, 9)
    kv.commit(seq, 9)
    assert kv.counts().free == 1
    kv.check_integrity()


def test_a_request_may_be_tried_in_another_way() -> None:
    kv = manager(4)
    cached(kv, [1] * 4)
    request = Request([1] * 12, chunk=8)
    assert kv.lookup(request).tokens == 4
    assert kv.lookup(Request([1] * 12, read_cache=False)).tokens == 0
    grant = kv.allocate(request, chunk=3, resumed=True)
    assert (grant.cached_tokens, grant.granted_tokens) == (4, 7)
    assert kv.stats.counters()["resumed"] == 1
    for options in ({"cache_salt": "x"}, {"priority": 1, "chunk": 2}):
        with pytest.raises(UsageError, match="part of the Request"):
            kv.allocate(request, **options)
    with pytest.raises(UsageError, match="the request's own"):
        kv.lookup(request, cache_salt="x")
