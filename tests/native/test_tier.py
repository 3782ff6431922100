"""Native policies over the blocks of a tier: they name the victims that the built-in one names."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from kvframe.config import Chosen, Resolved
from kvframe.errors import HandleError, PolicyError
from kvframe.flat import TierPolicy
from kvframe.native import NativePolicy

from .helpers import found, in_c, of

Make = Callable[[], NativePolicy]
NUMBERS = count()
SYMBOLS = ("order", "column", "books")


def tier(make: Make, capacity: int | None = 8, **policy: Any) -> TierPolicy[str]:
    resolved = Resolved.load("/dev/null", env={}, eviction=policy)
    # A name of its own: each is warned of once in a process.
    name = f"test-{next(NUMBERS)}"
    return TierPolicy(replace(resolved, eviction=Chosen(found(make, name=name))), capacity)


def store(tier: TierPolicy[str], *keys: str) -> None:
    for key in keys:
        tier.insert(key)
    tier.release(keys)


class Walk:
    """The same calls to a native tier and to the built-in one."""

    def __init__(self, symbol: str, seed: int, capacity: int | None) -> None:
        self.dice = random.Random(seed)
        lru: TierPolicy[str] = TierPolicy.named("lru", capacity)
        self.pair = tier(lambda: in_c(symbol), capacity), lru
        self.owned: list[str] = []
        self.scores = symbol != "order"

    def both(self, verb: str, *arguments: Any) -> Any:
        native, builtin = (getattr(tier, verb)(*arguments) for tier in self.pair)
        assert native == builtin, verb
        for tier in self.pair:
            tier.check_integrity()
        return builtin

    def step(self, number: int) -> None:
        dice, here = self.dice, list(self.pair[1])
        some = dice.sample(here, min(len(here), dice.randint(0, 3)))
        match dice.randrange(6):
            case 0:
                self.both("hit", some)
            case 1:
                self.both("refresh", some)
            case 2:
                self.both("acquire", some)
                self.owned += some
            case 3 if self.owned:
                key = self.owned.pop(dice.randrange(len(self.owned)))
                self.both("release", [key])
            case 4:
                # One that names victims itself cannot pass over a block and keep its place.
                spared = some if self.scores else ()
                for key in self.both("take", dice.randint(1, 2), lambda key: key not in spared):
                    assert key not in self.owned
            case _:
                if len(here) >= 12 and self.both("victims", dice.randint(1, 3)) is None:
                    self.both("release", self.owned)
                    self.owned.clear()
                    return
                if len(self.pair[1]) < 12:
                    self.both("insert", str(number))
                    self.both("release", [str(number)])


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("capacity", [12, None])
def test_the_same_calls_name_the_same_victims(symbol: str, capacity: int | None) -> None:
    for seed in range(6):
        walk = Walk(symbol, seed, capacity)
        for number in range(150):
            walk.step(number)
            if number % 10 == 0:
                walk.both("order")
        assert walk.pair[0].failures == 0


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_spared_blocks_stay(symbol: str) -> None:
    ours = tier(lambda: in_c(symbol))
    store(ours, *"abcdefgh")
    ours.acquire("h")
    assert ours.victims(3, "gfa") == ["e", "d", "c"]
    assert ours.victims(5, "g") is None
    assert sorted(ours) == sorted("abfgh")
    assert ours.failures == 0


def test_a_native_policy_that_fails_is_stood_in_for() -> None:
    wrong = {"victim": lambda state, memory, now: 7}
    ours = tier(lambda: of(wrong))
    store(ours, *"abcd")
    with pytest.warns(RuntimeWarning, match=r"kvframe-test 3\.2\.1.*victim named block 7"):
        assert ours.victims(2) == ["d", "c"]
    assert ours.failures == 2
    strict = tier(lambda: of(wrong), on_error="raise")
    store(strict, *"abcd")
    with pytest.warns(RuntimeWarning, match="victim named block 7"):
        strict.victims(1)  # its first fault ends its decisions
    with pytest.raises(PolicyError, match=r"kvframe-test 3\.2\.1"):
        strict.victims(2)
    assert len(strict) == 3


def test_a_score_that_is_not_given_is_no_decision() -> None:
    lazy = {"score": lambda state, memory, now, n, columns, out: 0}
    ours = tier(lambda: of(lazy))
    store(ours, *"abcd")
    with pytest.warns(RuntimeWarning, match="NaN or unset"):
        assert ours.victims(2) == ["d", "c"]
    strict = tier(lambda: of(lazy), on_error="raise")
    store(strict, *"abcd")
    with pytest.raises(PolicyError, match="NaN or unset"):
        strict.victims(2)
    with pytest.raises(PolicyError, match="NaN or unset"):
        strict.order()
    assert len(strict) == 4


def test_it_may_not_call_its_own_tier() -> None:
    told: list[BaseException] = []

    def victim(state: Any, memory: Any, now: int) -> int:
        try:
            len(ours.order())
        except HandleError as error:
            told.append(error)
        return -1

    ours = tier(lambda: of({"victim": victim}))
    store(ours, *"ab")
    with pytest.warns(RuntimeWarning, match="error -1"):
        assert ours.victims(1) == ["b"]
    assert told


def test_one_that_cannot_grow_is_refused_at_once() -> None:
    state: dict[str, Callable[..., Any]] = {
        "create": lambda config: 1,
        "destroy": lambda state: None,
    }
    fixed = {**state, "victim": lambda state, memory, now: -1}
    assert len(tier(lambda: of(fixed), 4)) == 0
    with pytest.raises(PolicyError, match="no resize"):
        tier(lambda: of(fixed), None)
