"""Eviction policies from outside rank a host tier's pages: in Python, and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

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


class Plugin:
    @kvframe.hookimpl
    def kvframe_eviction(self) -> Iterator[EvictionPolicy]:
        yield EvictionPolicy(name="recent", way="batched", summary="", make=lambda _: Recent())
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
