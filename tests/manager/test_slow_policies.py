"""An eviction policy that takes too long is asked no more; one that never ends is named."""

from __future__ import annotations

import time
import warnings
from itertools import count
from typing import Any

import pytest

from kvframe import KVCacheManager, PolicyError
from kvframe.policies import BatchedEviction

from .helpers import VERSION, cached, manager, registry, state

numbers = count()


class Slow(BatchedEviction):
    """Ranks by last use, and takes its time."""

    takes = 0.03
    asked = 0

    def score(self, candidates: Any, out: Any) -> None:
        self.asked += 1
        time.sleep(self.takes)
        # The newest first: what it says is not what is done.
        out[:] = -candidates["last_use"].astype(float)


def full(on_error: str, **more: Any) -> tuple[KVCacheManager, Slow, str]:
    policy, name = Slow(), f"slow{next(numbers)}"
    kv = manager(2, policy=name, known=registry(name, lambda _: policy), on_error=on_error, **more)
    cached(kv, [1] * 4)
    cached(kv, [2] * 4)
    return kv, policy, name


def test_one_that_overruns_its_budget_is_asked_no_more() -> None:
    kv, policy, name = full("fallback", budget_ms=10)
    with pytest.warns(RuntimeWarning, match=r"a decision took \d+ ms, its budget is 10 ms") as told:
        cached(kv, [9] * 4)
    assert str(told[0].message).startswith(f"{name} (kvframe-test {VERSION}): ")
    assert [kv.lookup([token] * 5).tokens for token in (1, 2)] == [0, 4], "lru took the decision"
    assert kv.stats.counters()["policy_failures"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached(kv, [8] * 4)
    assert policy.asked == 1
    assert kv.stats.counters()["policy_failures"] == 2
    kv.check_integrity()


def test_a_strict_one_is_refused_and_nothing_has_moved() -> None:
    kv, policy, _ = full("raise", budget_ms=10)
    before = state(kv)
    for message in (r"a decision took \d+ ms", "a decision before took too long"):
        with pytest.raises(PolicyError, match=f"{message}, its budget is 10 ms"):
            kv.allocate([9] * 4)
        assert state(kv) == before
    assert policy.asked == 1


def test_one_in_time_is_asked_again() -> None:
    kv, policy, _ = full("raise", budget_ms=5000)
    cached(kv, [9] * 4)
    cached(kv, [8] * 4)
    assert policy.asked == 2


def test_a_decision_that_does_not_return_is_named_by_a_watchdog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvframe.drivers.budget.OVERDUE_S", 0.02)

    class Stuck(BatchedEviction):
        def score(self, candidates: Any, out: Any) -> None:
            end = time.monotonic() + 5
            while not told and time.monotonic() < end:
                time.sleep(0.01)

    name = f"stuck{next(numbers)}"
    known = registry(name, lambda _: Stuck())
    kv = manager(1, policy=name, known=known, on_error="fallback", budget_ms=1)
    cached(kv, [1] * 4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cached(kv, [9] * 4)
    first, second = (str(one.message) for one in told)
    called = f"{name} (kvframe-test {VERSION})"
    assert first.startswith(f"{called} has not returned from a decision for ")
    assert second.startswith(f"{called}: PolicyError: a decision took ")
