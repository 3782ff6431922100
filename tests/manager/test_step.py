"""A scheduler step in one call: its order, its refusals, and the plan it answers with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    KVCacheManager,
    PolicyError,
    Request,
    StepResult,
    UsageError,
)
from kvframe.policies import BatchedEviction
from kvframe.results import NO_COPIES

from .helpers import cached, manager, registry, state


class Oldest(BatchedEviction):
    """What lru does, in Python."""

    columns = ("last_use",)

    def score(self, candidates: Any, out: Any) -> None:
        out[:] = candidates["last_use"]


class Broken(BatchedEviction):
    def score(self, candidates: Any, out: Any) -> None:
        raise ArithmeticError("no idea")


def batched(blocks: int, make: type[BatchedEviction] = Oldest, **more: Any) -> KVCacheManager:
    name = make.__name__.lower()
    known = registry(name, lambda _: make())
    return manager(blocks, policy=name, known=known, **more)


def builtin(blocks: int) -> KVCacheManager:
    return manager(blocks)


EITHER = pytest.mark.parametrize("make", [builtin, batched], ids=["builtin", "batched"])


@EITHER
def test_one_call_does_what_the_single_ones_do(make: Any) -> None:
    kv = make(8)
    gone, grown, cut = (kv.allocate([i] * 6).seq for i in (1, 2, 3))
    out = kv.step(
        release=np.array([gone]),
        truncate=([cut], [3]),
        commit=([grown, cut], np.array([6, 2])),
        append=[grown, cut],
        counts=[3, 2],
        tokens=np.array([7, 7, 7, 8, 9], np.uint32),
    )
    assert out[:6] == ([], [], [], NO_COPIES, [], [])
    assert out.reasons.tolist() == [0, 0]
    assert kv.lengths(grown) == (9, 9, 6, 0)
    assert kv.lengths(cut) == (5, 5, 2, 0)
    assert kv.step()[:6] == ([], [], [], NO_COPIES, [], [])
    kv.check_integrity()


@EITHER
def test_what_ends_makes_room_for_what_grows(make: Any) -> None:
    kv = make(4)
    seqs = [kv.allocate([i] * 8).seq for i in (1, 2)]
    out = kv.step(
        commit=([seqs[0]], [8]), release=[seqs[1]], append=[seqs[0]], counts=[8], tokens=[5] * 8
    )
    assert out.refused == []
    assert kv.counts() == (0, 0, 4, 4)


@EITHER
def test_want_of_room_refuses_the_one_append(make: Any) -> None:
    kv = make(4)
    seqs = [kv.allocate([i] * 4).seq for i in (1, 2, 3)]
    before = kv.block_table(seqs[1]).tolist()
    out = kv.step(append=seqs, counts=[0, 9, 1], tokens=[7] * 10)
    ((what, place, error),) = out.refused
    assert (what, place, type(error)) == ("append", 1, CapacityError)
    assert kv.block_table(seqs[1]).tolist() == before
    assert kv.lengths(seqs[1]) == (4, 4, 0, 0)
    assert kv.counts() == (0, 0, 4, 4)
    assert kv.lengths(seqs[2]) == (5, 5, 0, 0)
    kv.check_integrity()


@EITHER
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("append", {"append": [0, 0], "counts": [2, 1]}),
        ("append", {"append": [0, 0], "counts": [0, 0]}),
        ("extend", {"extend": ([0, 0], [8, 8])}),
        ("extend", {"append": [0], "counts": [0], "extend": ([0], [8])}),
        ("truncate", {"truncate": ([0, 0], [2, 2])}),
        ("commit", {"commit": ([0, 0], [1, 2])}),
        ("fill", {"fill": ([0, 0], [5, 5])}),
    ],
)
def test_a_sequence_named_twice_is_refused_by_list_and_name(
    make: Any, name: str, step: dict[str, Any]
) -> None:
    """Lengths and block tables are of the whole step: the second of two would be told wrong."""
    kv = make(4)
    seq = kv.allocate([1, 2, 3, 4, 5, 6]).seq
    kv.append_placeholders(seq, 2)

    def real(given: Any) -> Any:
        return ([seq] * len(given[0]), *given[1:]) if isinstance(given, tuple) else given

    step = {key: real(value) for key, value in step.items()}
    if "append" in step:
        step["append"] = [seq] * len(step["append"])
    before = state(kv, [seq])
    with pytest.raises(UsageError, match=f"{name} = {seq}: .*once"):
        kv.step(**step)
    assert state(kv, [seq]) == before
    kv.check_integrity()


@EITHER
@pytest.mark.scenario("CB-B1", "CB-B2", "I4")
def test_every_copy_of_a_step_is_in_its_plan(make: Any) -> None:
    """One copy finds a free page, the other has to evict for it."""
    kv = make(4)
    one, two = kv.allocate([1, 2]).seq, kv.allocate([3, 4]).seq
    cached(kv, [9] * 4)
    kv.fork(one), kv.fork(two)
    out = kv.step(append=[one, two], tokens=[5, 6])
    assert out.refused == []
    assert out.plan
    assert out.plan.copies.tolist() == [[0, 3, 2, 0], [1, 2, 2, 0]]
    assert not kv.take_plan()
    kv.check_integrity()


@EITHER
def test_a_plan_gathered_before_the_step_comes_with_it(make: Any) -> None:
    kv = make(6)
    one, two = kv.allocate([1, 2]).seq, kv.allocate([3, 4]).seq
    kv.fork(one), kv.fork(two)
    kv.append(one, [5])
    out = kv.step(append=[two], tokens=[6])
    assert out.plan
    assert [row[0] for row in out.plan.copies.tolist()] == [0, 1]


@pytest.mark.scenario("I3")
def test_a_strict_policy_that_fails_loses_neither_plan_nor_step() -> None:
    """Either nothing was done, or what was done is told: a lost plan is a lost copy."""
    kv = batched(4, Broken, on_error="raise")
    one, two = kv.allocate([1, 2]).seq, kv.allocate([3, 4]).seq
    cached(kv, [9] * 4)
    kv.fork(one), kv.fork(two)
    before = state(kv, [one, two])
    try:
        out = kv.step(append=[one, two], tokens=[5, 6])
    except PolicyError:
        assert state(kv, [one, two]) == before
        return
    assert [place for _, place, _ in out.refused] == [1]
    assert isinstance(out.refused[0][2], PolicyError)
    assert out.plan
    assert len(out.plan.copies) == 1
    kv.check_integrity()


def test_a_strict_policy_that_fails_loses_no_grant() -> None:
    """A grant that nobody is told of is a sequence that nobody can release."""
    kv = batched(4, Broken, on_error="raise")
    one = kv.allocate([1, 2]).seq
    cached(kv, [9] * 4)
    kv.fork(one)
    before = kv.stats.counters()["live_sequences"]
    granted: list[Any] = []
    try:
        out = kv.step(append=[one], tokens=[5], allocate=[Request([7]), Request([8])])
        granted = [grant for grant in out.allocations if grant is not None]
        assert [(what, place) for what, place, _ in out.refused] == [("allocate", 1)]
    except PolicyError:
        pass
    assert kv.stats.counters()["live_sequences"] == before + len(granted)
    kv.check_integrity()


@pytest.mark.parametrize("on_error", ["raise", "fallback"])
def test_an_interrupt_of_a_policy_loses_nothing_of_a_step(on_error: str) -> None:
    """Ctrl-C in a policy in Python: the exception says what the step has done all the same."""

    class Interrupted(Broken):
        def score(self, candidates: Any, out: Any) -> None:
            raise KeyboardInterrupt

    kv = batched(6, Interrupted, on_error=on_error)
    one, other, last = (kv.allocate([token, token]).seq for token in (1, 2, 3))
    cached(kv, [9] * 4)
    kv.fork(one)
    with pytest.raises(KeyboardInterrupt) as caught:
        kv.step(
            append=[one],
            tokens=[5],
            fork=[other],
            preempt=[last],
            allocate=[Request([7]), Request([8]), Request([6])],
        )
    done = caught.value.stepped  # type: ignore[attr-defined]
    assert isinstance(done, StepResult)
    grants = [grant.seq for grant in done.allocations if grant is not None]
    assert [(what, place) for what, place, _ in done.refused] == [("allocate", 2)]
    assert (len(grants), len(done.forks), len(done.preempted)) == (2, 1, 1)
    assert done.plan
    assert {*grants, *done.forks} < set(kv.inspect.running().tolist())
    assert kv.stats.counters()["policy_failures"] == 0
    assert kv.allocate([4], until=0).granted_tokens == 0
    kv.check_integrity()


@EITHER
def test_a_failed_copy_and_a_cut_in_one_step(make: Any) -> None:
    """The engine does not know yet that the copy's failure cut the sequence further."""
    kv = make(8)
    parent = kv.allocate(list(range(5))).seq
    kv.commit(parent, 5)
    child = kv.fork(parent)
    kv.append(child, [7, 8])
    plan = kv.take_plan()
    assert plan
    out = kv.step(failed=[plan.ticket], truncate=([child], [6]), commit=([child], [6]))
    assert out.rewound == [child]
    lengths = kv.lengths(child)
    assert (lengths.slots, lengths.committed) == (4, 4)
    kv.extend(child, lengths.known)
    kv.check_integrity()
