"""A policy that breaks its contract over a tier's blocks: the same faults as in a manager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from kvframe.config import Resolved
from kvframe.errors import PolicyError, UsageError
from kvframe.flat import TierPolicy
from kvframe.policies import BatchedEviction

from ..manager.helpers import VERSION, registry
from ..manager.test_bad_policies import CASES, Body

numbers = count()
# Blocks of a tier follow none.
FAULTS = [case for case in CASES if case[1] != "parent first"]


def full(way: str, body: Body, on_error: str) -> tuple[TierPolicy[str], str]:
    """A full tier of four blocks, one of them pinned."""

    class Policy(BatchedEviction):
        pass

    setattr(Policy, way, lambda self, *args: body(*args))
    name = f"tier-bad{next(numbers)}"
    known = registry(name, lambda _: Policy())
    eviction = {"policy": name, "on_error": on_error}
    tier: TierPolicy[str] = TierPolicy(
        Resolved.load("/dev/null", env={}, registry=known, eviction=eviction), 5
    )
    for key in "abcde":
        tier.insert(key)
        tier.release([key])
    tier.acquire(["a"])
    return tier, name


@pytest.mark.parametrize(("way", "name", "body", "message"), FAULTS)
def test_the_built_in_order_stands_in_and_says_so_once(
    way: str, name: str, body: Body, message: str
) -> None:
    tier, called = full(way, body, "fallback")
    with pytest.warns(RuntimeWarning, match=message) as told:
        assert tier.victims(2) == ["b", "c"]
    assert [str(one.message).split(": ")[0] for one in told] == [
        f"{called} (kvframe-test {VERSION})"
    ]
    assert tier.failures == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tier.victims(1, ["d"]) == ["e"]
    tier.check_integrity()


@pytest.mark.parametrize(("way", "name", "body", "message"), FAULTS)
def test_a_strict_one_is_raised_and_nothing_has_moved(
    way: str, name: str, body: Body, message: str
) -> None:
    tier, called = full(way, body, "raise")
    with pytest.raises(PolicyError, match=message) as caught:
        tier.victims(2)
    assert str(caught.value).startswith(f"{called} (kvframe-test {VERSION}): ")
    assert sorted(tier) == sorted("abcde")
    tier.check_integrity()


def test_one_that_names_a_pinned_block_is_stood_in_for() -> None:
    def pinned(n: int, offer: Any, out: Any) -> None:
        out[:] = 0  # a: it came first

    tier, _ = full("victims", pinned, "fallback")
    with pytest.warns(RuntimeWarning, match="block 0 was not offered"):
        assert tier.victims(1) == ["b"]
    assert "a" in tier


CHANGES: dict[str, Callable[[TierPolicy[str]], object]] = {
    "insert": lambda tier: tier.insert("z"),
    "missed": lambda tier: tier.on_miss(["z"]),
    "hit": lambda tier: tier.hit(["b"]),
    "refresh": lambda tier: tier.refresh(["b"]),
    "claim": lambda tier: tier.acquire(["b"]),
    "release": lambda tier: tier.release(["a"]),
    "remove": lambda tier: tier.remove(["b"]),
    "clear": lambda tier: tier.clear(),
    "victims": lambda tier: tier.victims(1),
    "take": lambda tier: tier.take(1, bool),
}


@pytest.mark.scenario("I14", "I3", "FE-B13")
@pytest.mark.parametrize("verb", CHANGES)
@pytest.mark.parametrize("asked", ["eligible", "score"])
def test_who_is_asked_may_look_and_not_change(verb: str, asked: str) -> None:
    """A block that was used meanwhile used to stay in the tier's books, and another to leave it."""
    held: list[TierPolicy[str]] = []

    def answer(*_: object) -> bool:
        (tier,) = held
        assert len(tier) == len([*tier]) == 5
        CHANGES[verb](tier)
        return True

    def body(candidates: Any, out: Any) -> None:
        if asked == "score":
            answer()
        out[:] = 0

    tier, _ = full("score", body, "raise")
    held.append(tier)
    with pytest.raises(UsageError if asked == "eligible" else PolicyError, match="may not change"):
        tier.take(2, answer) if asked == "eligible" else tier.victims(2)
    assert [*tier] == [*"abcde"]
    tier.check_integrity()
    if asked == "eligible":
        tier.remove(["e"])
        CHANGES[verb](tier)  # Afterwards it may.
    tier.check_integrity()
