"""Admission policies that break their contract: everything is kept, the policy is named."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, PolicyError, UsageError
from kvframe.policies import BatchedAdmission

from .gates import found, gated, gates, serve
from .helpers import VERSION, state

numbers = count()
Body = Callable[..., object]
A = list(range(12))


def raises(blocks: Any, tier: str, out: Any) -> None:
    raise ZeroDivisionError("no idea")


def answers(blocks: Any, tier: str, out: Any) -> Any:
    out[:] = 0
    return out


def nan(blocks: Any, tier: str, out: Any) -> None:
    out[:] = np.full(len(out), np.nan)


def nan_alone(blocks: Any, tier: str, out: Any) -> None:
    out[0] = float("nan")


def unset(blocks: Any, tier: str, out: Any) -> None:
    out[:-1] = 0


def other_number(blocks: Any, tier: str, out: Any) -> None:
    out[:] = 3


def negative(blocks: Any, tier: str, out: Any) -> None:
    out[:] = -1


def wrong_shape(blocks: Any, tier: str, out: Any) -> None:
    out[:] = np.zeros(len(out) + 1)


def resizes(blocks: Any, tier: str, out: Any) -> None:
    out.resize(1, refcheck=False)


def retypes(blocks: Any, tier: str, out: Any) -> None:
    out[:] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.dtype = np.bool_


def writes_input(blocks: Any, tier: str, out: Any) -> None:
    out[:] = 0
    blocks["key"][:] = 0


def unfreezes_input(blocks: Any, tier: str, out: Any) -> None:
    blocks["key"].setflags(write=True)


def wants_more(blocks: Any, tier: str, out: Any) -> None:
    out[:] = blocks["depth"]


CASES: dict[str, tuple[Body, str]] = {
    "raises": (raises, "ZeroDivisionError: no idea"),
    "answers": (answers, "admit must fill out and return None"),
    "nan": (nan, "FloatingPointError: invalid value"),
    "nan alone": (nan_alone, "cannot convert float NaN"),
    "unset": (unset, r"verdict 2 of 3 is unset: must be 0 \(drop\), 1 \(keep\) or 2"),
    "other number": (other_number, "verdict 0 of 3 is 3: must be"),
    "negative": (negative, "OverflowError"),
    "wrong shape": (wrong_shape, "ValueError: could not broadcast"),
    "resizes": (resizes, "ValueError: cannot resize"),
    "retypes": (retypes, "changed the type or the shape of out"),
    "writes input": (writes_input, "read-only"),
    "unfreezes input": (unfreezes_input, "cannot set WRITEABLE"),
    "wants a column not asked for": (
        wants_more,
        "KeyError: 'depth'; the policy's columns name only ",
    ),
}


def holds(body: Body, on_error: str, **options: Any) -> tuple[KVCacheManager, str]:
    class Policy(BatchedAdmission):
        def admit(self, *args: Any) -> Any:
            return body(*args)

    name = f"gate{next(numbers)}"
    return gated(name, known=gates(name, lambda _: Policy()), on_error=on_error, **options), name


@pytest.mark.parametrize(("body", "message"), CASES.values(), ids=CASES)
def test_a_strict_policy_that_fails_is_raised_and_nothing_has_moved(
    body: Body, message: str
) -> None:
    kv, name = holds(body, "raise")
    seq = kv.admit([*A, 7]).seq
    before = state(kv, [seq])
    calls: list[Callable[[], object]] = [
        lambda: kv.commit(seq, 13),
        lambda: kv.step(commit=([seq], [13]), release=[seq]),
    ]
    for failures, call in enumerate(calls, 1):
        with pytest.raises(PolicyError, match=message) as caught:
            call()
        assert str(caught.value).startswith(f"{name} (kvframe-test {VERSION}): ")
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is not None
        assert kv.stats()["admission_failures"] == failures
        told = state(kv, [seq])
        kv.check_integrity()
    assert _without_failures(told) == _without_failures(before)


def _without_failures(told: Any) -> Any:
    counts, stats, *rest = told
    return (counts, {k: v for k, v in stats.items() if k != "admission_failures"}, *rest)


@pytest.mark.parametrize(("body", "message"), CASES.values(), ids=CASES)
def test_everything_is_kept_instead_and_it_is_said_once(body: Body, message: str) -> None:
    kv, name = holds(body, "fallback")
    with pytest.warns(RuntimeWarning, match=message) as told:
        serve(kv, [*A, 7])
    assert len(told) == 1
    text = str(told[0].message)
    assert text.startswith(f"{name} (kvframe-test {VERSION}): ")
    assert text.endswith("everything is kept")
    assert found(kv, A) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serve(kv, [8] * 13)
    assert kv.stats()["admission_failures"] == 2
    assert found(kv, [8] * 12) == 3


@pytest.mark.parametrize("on_error", ["raise", "fallback"])
def test_an_interrupt_is_not_a_failure(on_error: str) -> None:
    def body(*_: Any) -> None:
        raise KeyboardInterrupt

    kv, _ = holds(body, on_error)
    seq = kv.admit([*A, 7]).seq
    before = state(kv, [seq])
    with pytest.raises(KeyboardInterrupt):
        kv.commit(seq, 13)
    assert state(kv, [seq]) == before
    assert kv.stats()["admission_failures"] == 0


@pytest.mark.scenario("I14", "CB-B12")
@pytest.mark.parametrize("trouble", [KeyboardInterrupt, ZeroDivisionError])
def test_who_was_preempted_before_the_trouble_is_not_lost(trouble: type[BaseException]) -> None:
    asked: list[int] = []

    def body(blocks: Any, tier: str, out: Any) -> None:
        out[:] = 1
        asked.append(len(out))
        if ready and len(asked) == 2:
            raise trouble

    ready: list[bool] = []
    kv, _ = holds(body, "raise")
    seqs = [kv.admit([token] * 6).seq for token in range(3)]
    for seq in seqs:
        kv.commit(seq, 6)
    forks = [kv.fork(seq) for seq in seqs]
    for fork in forks:
        kv.append(fork, [7, 8])
        kv.commit(fork, 8)
    asked.clear()
    ready.append(True)
    # What was computed over a copy under way becomes findable as its sequence ends.
    plan = kv.take_plan()
    assert plan is not None
    kv.done(plan.ticket)
    with pytest.raises((trouble, PolicyError)) as caught:
        kv.preempt_to(0.0, forks, "last-admitted")
    (back,) = caught.value.__dict__["preempted"]
    assert kv.live().tolist() == [*seqs, *forks[:2]]
    assert kv.admit(back).prompt_tokens == 8
    kv.check_integrity()


def test_one_that_overruns_its_budget_is_asked_no_more() -> None:
    asked: list[int] = []

    def body(blocks: Any, tier: str, out: Any) -> None:
        asked.append(len(out))
        time.sleep(0.05)
        out[:] = 0

    kv, _ = holds(body, "fallback", budget_ms=10)
    with pytest.warns(RuntimeWarning, match=r"a decision took \d+ ms, its budget is 10 ms"):
        serve(kv, [*A, 7])
    assert found(kv, A) == 3
    serve(kv, [8] * 13)
    assert (len(asked), kv.stats()["admission_failures"]) == (1, 1)
    assert found(kv, [8] * 12) == 3


@pytest.mark.scenario("I14")
def test_a_policy_may_call_its_manager() -> None:
    def body(blocks: Any, tier: str, out: Any) -> None:
        out[:] = 1
        kv.check_integrity()
        kv.lookup([1] * 9)
        if len(out) == 3:
            kv.release(other)

    kv, _ = holds(body, "raise")
    other = kv.admit([5] * 6).seq
    kv.commit(other, 6)
    serve(kv, [*A, 7])
    assert found(kv, A) == 3
    kv.check_integrity()


def test_a_sequence_that_ends_while_the_policy_thinks_is_refused_not_lost() -> None:
    from kvframe import HandleError

    def body(blocks: Any, tier: str, out: Any) -> None:
        out[:] = 1
        kv.release(seq)

    kv, _ = holds(body, "raise")
    seq = kv.admit([*A, 7]).seq
    with pytest.raises(HandleError):
        kv.step(commit=([seq], [13]))
    kv.check_integrity()
    assert kv.counts() == (16, 0, 0, 16)


@pytest.mark.scenario("I13", "I3")
@pytest.mark.parametrize("blocks", [4, 2**31, 2**32 - 1])
def test_more_blocks_than_a_load_is_of_are_refused_before_the_policy_is_asked(blocks: int) -> None:
    kv, _ = holds(answers, "raise")
    grant = kv.admit([*A, 7], num_external_tokens=12)
    assert grant.load is not None
    before = state(kv, [grant.seq])
    for told in (blocks, [blocks]):
        with pytest.raises(UsageError, match="the ticket is for 3 blocks"):
            kv.loaded(grant.load, told)
    with pytest.raises(UsageError, match="the ticket is for 3 blocks"):
        kv.step(loaded=([grant.load], [blocks]))
    assert state(kv, [grant.seq]) == before


def test_an_event_method_that_raises_is_a_failure_too() -> None:
    class Policy(BatchedAdmission):
        def seen(self, keys: Any, now: int) -> None:
            raise LookupError("lost my books")

    kv = gated("books", known=gates("books", lambda _: Policy()))
    with pytest.raises(PolicyError, match="LookupError: lost my books"):
        serve(kv, [*A, 7])
    kv.check_integrity()


def fails(options: Any) -> object:
    raise OSError("no model file")


class Columns(BatchedAdmission):
    columns = ("key", "colour")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (fails, "cannot be made: OSError: no model file"),
        (lambda _: object(), "make\\(\\) gave a object, not a kvframe.policies.BatchedAdmission"),
        (lambda _: None, "make\\(\\) gave a NoneType"),
        (lambda _: Columns(), "no column is called 'colour'; there are key, "),
    ],
)
def test_a_policy_that_cannot_be_made_is_named(make: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        gated("unmade", known=gates("unmade", make))
    assert str(caught.value).startswith(f"unmade (kvframe-test {VERSION}): ")


def test_one_that_overrides_nothing_says_so() -> None:
    kv = gated("idle", known=gates("idle", lambda _: BatchedAdmission()))
    with pytest.raises(PolicyError, match="BatchedAdmission must override admit"):
        serve(kv, [*A, 7])
