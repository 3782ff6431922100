"""Eviction policies from outside rank a host tier's pages: in Python, and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import kvframe
from kvframe import EvictionPolicy, Registry
from kvframe.policies import BatchedEviction

from ..native.helpers import in_c
from .helpers import Engine, host, text


class Recent(BatchedEviction):
    """lru, in Python."""

    columns = ("last_use",)
    window = 0

    def score(self, candidates: Any, out: Any) -> None:
        out[:] = candidates["last_use"]


class Failing(Recent):
    """As that, every other time: between, it raises or answers with no number."""

    asked = 0

    def score(self, candidates: Any, out: Any) -> None:
        self.asked += 1
        if self.asked % 4 == 1:
            raise RuntimeError("not today")
        out[:] = np.nan if self.asked % 4 == 3 else candidates["last_use"]


class Plugin:
    @kvframe.hookimpl
    def kvframe_eviction(self) -> Iterator[EvictionPolicy]:
        yield EvictionPolicy(name="recent", way="batched", summary="", make=lambda _: Recent())
        yield EvictionPolicy(name="failing", way="batched", summary="", make=lambda _: Failing())
        for symbol in ("column", "order"):
            make = partial(native, symbol)
            yield EvictionPolicy(name=symbol, way="native", summary="", make=make)


def native(symbol: str, options: None) -> Any:
    return in_c(symbol)


def churn(policy: str) -> dict[str, Any]:
    """What moved, of a load that has more prompts than the tier holds."""
    registry = Registry()
    registry.register(Plugin(), "test")
    dice = Random(7)
    engine = Engine([host(9, eviction=policy)], blocks=12, dice=Random(3), registry=registry)
    for _ in range(60):
        if dice.random() < 0.3:
            engine.forget()
        engine.run(text(dice.randrange(5), 5 + 4 * dice.randrange(5)))
    engine.tiers.check_integrity()
    assert engine.tiers.verify() == []
    return engine.tiers.stats()


@pytest.mark.parametrize("policy", ["recent", "column", "order"])
def test_a_plugin_that_is_lru_moves_what_lru_moves(policy: str) -> None:
    assert churn(policy) == churn("lru")


@pytest.mark.parametrize("policy", ["lru", "recent", "column", "order"])
def test_backed_pages_die_first_and_then_whom_the_policy_names(policy: str) -> None:
    registry = Registry()
    registry.register(Plugin(), "test")
    engine = Engine([host(12, eviction=policy, backed_first=True)], blocks=16, registry=registry)
    for seed in range(3):
        engine.run(text(seed, 17))
    index = engine.tiers.host.index
    index.set_backed(engine.kv.blocks.hash_blocks(text(1, 17)), True)
    gone = [page for _, page in index.evict_until(8)]
    assert gone == [7, 6, 5, 4, 3, 2, 1, 0]
    engine.tiers.check_integrity()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_a_policy_fails_the_built_in_order_decides() -> None:
    registry = Registry()
    registry.register(Plugin(), "test")
    tier = host(9, eviction="failing", high=0.8, low=0.5)
    engine = Engine([tier], blocks=12, registry=registry)
    for turn in range(40):
        engine.run(text(turn % 5, 5 + 4 * (turn % 4)))
        engine.tiers.poll()
    told = engine.tiers.stats()["host"]
    assert told["policy_failures"] > 0
    assert told["evicted"] > 0
    assert engine.tiers.verify() == []
