"""Prefix matchers that break their contract: prompts are matched without them, they are named."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from kvframe import PolicyError
from kvframe.policies import BatchedPrefix

from .gates import serve
from .helpers import VERSION, state
from .matchers import DictIndex, matched, matchers

numbers = count()
A = list(range(12))
Body = Callable[..., object]


def raises(*_: Any) -> None:
    raise ZeroDivisionError("no idea")


def few(*_: Any) -> list[Any]:
    return []


def floats(prompts: Any) -> list[Any]:
    return [np.full(13, 0.5)]


def nothing(prompts: Any) -> list[Any]:
    return [np.zeros(0, np.uint32)]


def table(prompts: Any) -> list[Any]:
    return [np.zeros((2, 2), np.uint32)]


def negative(prompts: Any) -> list[Any]:
    return [np.array([-1, 2])]


def writes_prompt(prompts: Any) -> list[Any]:
    prompts.tokens[0][0] = 5
    return [None]


def thaws(prompts: Any) -> list[Any]:
    prompts.lengths[0] = 5
    return [None]


def no_string(prompts: Any) -> list[Any]:
    return [7]


def too_much(prompts: Any, found: Any, out: Any) -> None:
    out[:] = 99


def below(prompts: Any, found: Any, out: Any) -> None:
    out[:] = -1


def nan(prompts: Any, found: Any, out: Any) -> None:
    out[:] = np.full(len(out), np.nan)


def answers(prompts: Any, found: Any, out: Any) -> Any:
    return out


def writes_found(prompts: Any, found: Any, out: Any) -> None:
    found[:] = 0


def retypes(prompts: Any, found: Any, out: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.dtype = np.float64


CASES: dict[str, tuple[str, Body, str]] = {
    "normalise raises": ("normalise", raises, "ZeroDivisionError: no idea"),
    "normalise few": ("normalise", few, "normalise gave 0 answers for 1 prompts"),
    "normalise floats": ("normalise", floats, "prompt 0 is float64 of shape"),
    "normalise nothing": ("normalise", nothing, "must be a row of at least one token id"),
    "normalise table": ("normalise", table, r"uint32 of shape \(2, 2\)"),
    "normalise negative": ("normalise", negative, "holds ids out of 0 to 4294967295"),
    "normalise writes": ("normalise", writes_prompt, "read-only"),
    "normalise writes a column": ("normalise", thaws, "read-only"),
    "namespace raises": ("namespace", raises, "ZeroDivisionError"),
    "namespace few": ("namespace", few, "namespace gave 0 answers for 1 prompts"),
    "namespace number": ("namespace", no_string, "namespace 0 is 7: must be a string"),
    "take raises": ("take", raises, "ZeroDivisionError"),
    "take too much": ("take", too_much, r"take: out\[0\] = 99: must be between 0 and 12"),
    "take below": ("take", below, r"take: out\[0\] = -1: must be between"),
    "take nan": ("take", nan, "FloatingPointError"),
    "take answers": ("take", answers, "take must fill out and return None"),
    "take writes": ("take", writes_found, "read-only"),
    "take retypes": ("take", retypes, "take changed the type or the shape of out"),
    "match raises": ("match", raises, "ZeroDivisionError"),
    "match few": ("match", few, "match gave 0 answers for 1 prompts"),
    "match floats": ("match", floats, "answer 0 is float64 of shape"),
    "match negative": ("match", negative, "names -1, which is no block id"),
    "insert raises": ("insert", raises, "no idea"),
}


def holds(method: str, body: Body) -> tuple[BatchedPrefix, str]:
    base = DictIndex if method in ("match", "insert") else BatchedPrefix

    def broken(self: Any, *args: Any) -> Any:
        return body(*args)

    policy = type("Policy", (base,), {method: broken})()
    return policy, f"matcher{next(numbers)}"


@pytest.mark.parametrize(("method", "body", "message"), CASES.values(), ids=CASES)
def test_a_strict_matcher_that_fails_is_raised_and_nothing_has_moved(
    method: str, body: Body, message: str
) -> None:
    policy, name = holds(method, body)
    kv = matched(policy, name=name)
    if method in ("take", "insert"):
        # They are asked where something was found, or stored: that happens behind their back.
        kv._prompts.matcher, driver = None, kv._prompts.matcher
        serve(kv, [*A, 7])
        kv._prompts.matcher = driver
    before = state(kv)
    calls: list[Callable[[], object]] = [
        lambda: kv.allocate([*A, 7]),
        lambda: kv.step(allocate=[[*A, 7]]),
    ]
    for call in calls:
        with pytest.raises(PolicyError, match=message) as caught:
            call()
        assert str(caught.value).startswith(f"{name} (kvframe-test {VERSION}): ")
        assert "\n" not in str(caught.value)
    assert state(kv) == before
    assert kv.stats.prefix_stats()["prefix_failures"] == 2
    kv.check_integrity()


@pytest.mark.parametrize(("method", "body", "message"), CASES.values(), ids=CASES)
def test_prompts_are_matched_without_it_and_it_is_said_once(
    method: str, body: Body, message: str
) -> None:
    policy, name = holds(method, body)
    kv = matched(policy, name=name, on_error="fallback")

    def twice() -> Any:
        serve(kv, [*A, 7])
        return kv.allocate([*A, 7])

    with pytest.warns(RuntimeWarning) as told:
        grant = twice()
    assert (grant.cached_tokens, grant.prompt) == (12, None)
    assert len(told) == 1
    text = str(told[0].message)
    assert text.startswith(f"{name} (kvframe-test {VERSION}): ")
    assert text.endswith("prompts are matched without it")
    kv.check_integrity()


def test_one_that_overruns_its_budget_is_asked_no_more() -> None:
    class Slow(BatchedPrefix):
        asked = 0

        def take(self, prompts: Any, found: Any, out: Any) -> None:
            self.asked += 1
            time.sleep(0.05)
            out[:] = 0

    policy = Slow()
    kv = matched(policy, budget_ms=10, on_error="fallback", name="slow")
    with pytest.warns(RuntimeWarning, match="its budget is 10 ms"):
        serve(kv, [*A, 7])
    assert serve(kv, [*A, 7]) == 12
    assert policy.asked == 1


def test_an_interrupt_is_not_a_failure() -> None:
    class Stop(BatchedPrefix):
        def take(self, prompts: Any, found: Any, out: Any) -> None:
            raise KeyboardInterrupt

    kv = matched(Stop(), on_error="fallback")
    with pytest.raises(KeyboardInterrupt):
        kv.allocate([*A, 7])
    assert kv.stats.prefix_stats()["prefix_failures"] == 0
    kv.check_integrity()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: 1 // 0, "cannot be made: ZeroDivisionError"),
        (lambda _: object(), "make\\(\\) gave a object, not a kvframe.policies.BatchedPrefix"),
    ],
)
def test_a_matcher_that_cannot_be_made_is_named(make: Any, message: str) -> None:
    from kvframe import KVCacheManager
    from kvframe.config import Resolved

    known = matchers("unmade", make)
    with pytest.raises(PolicyError, match=message):
        KVCacheManager(Resolved.load(env={}, registry=known, prefix={"policy": "unmade"}))
