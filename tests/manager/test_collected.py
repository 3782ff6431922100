"""A policy that holds what it serves is collected with it: nothing of either outlives the other."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from kvframe import Config, EvictionConfig, Resolved, SlotCache
from kvframe.flat import TierPolicy
from kvframe.policies import BatchedEviction, BatchedPrefix
from kvframe.tiers.tier_index import TierIndex

from ..tiers.helpers import MODEL, host
from .gates import UsedTwice, gated, gates
from .helpers import cached, manager, registry
from .matchers import matched


class Holds(BatchedEviction):
    served: object

    def score(self, candidates: Any, out: Any) -> None:
        out[:] = candidates["last_use"]

    def insert(self, blocks: Any, now: int) -> None:
        pass


class HoldsToo(BatchedPrefix):
    served: object

    def namespace(self, prompts: Any) -> list[str]:
        return ["a"] * len(prompts.request_classes)


class Gate(UsedTwice):
    served: object


def resolved(policy: Holds) -> Resolved:
    config = Config(eviction=EvictionConfig(policy="holds"))
    return config.resolve(registry("holds", lambda _: policy))


def evicting(policy: Holds, budget_ms: float | None = None) -> object:
    known = registry("holds", lambda _: policy)
    kv = manager(4, 2, policy="holds", known=known, budget_ms=budget_ms)
    for first in (1, 2):
        cached(kv, [first] * 7)
    return kv


def in_slots(policy: Holds) -> object:
    slots = SlotCache(1, 4, policy=resolved(policy))
    for first in (1, 2):
        slots.release(slots.allocate([first] * 3).seq)
    return slots


def in_tier(policy: Holds) -> object:
    tier: TierPolicy[str] = TierPolicy(resolved(policy), 1)
    tier.insert("a")
    tier.release(["a"])
    assert tier.victims(1) == ["a"]
    return tier


def in_pages(policy: Holds) -> object:
    tier = host(2, eviction=EvictionConfig(policy="holds"))
    known = registry("holds", lambda _: policy)
    return TierIndex(Config(model=MODEL, tiers=[tier]).resolve(known).tiers[0], 4, 1)


def admitting(policy: Gate) -> object:
    kv = gated("holds", known=gates("holds", lambda _: policy))
    cached(kv, [1] * 9)
    return kv


def matching(policy: HoldsToo) -> object:
    kv = matched(policy)
    cached(kv, [1] * 9)
    return kv


PLACES: dict[str, tuple[type, Callable[[Any], object]]] = {
    "eviction": (Holds, evicting),
    "eviction by a budget": (Holds, lambda policy: evicting(policy, 1000.0)),
    "slots": (Holds, in_slots),
    "a tier": (Holds, in_tier),
    "a tier of pages": (Holds, in_pages),
    "admission": (Gate, admitting),
    "prefix matching": (HoldsToo, matching),
}


@pytest.mark.scenario("S23")
@pytest.mark.parametrize("place", PLACES)
def test_a_policy_and_what_it_serves_go_together(place: str) -> None:
    kind, serve = PLACES[place]
    policy = kind()
    policy.served = serve(policy)
    gone = [weakref.ref(policy), weakref.ref(policy.served)]
    del policy
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
