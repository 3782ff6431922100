"""A tier's tables say how its policies are asked: how many candidates, and what a failure costs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kvframe import AdmissionPolicy, EvictionConfig, EvictionPolicy, PolicyError, hookimpl
from kvframe.config import TierAdmissionConfig
from kvframe.policies import BatchedAdmission, BatchedEviction

from .helpers import Engine, Known, host, text


class Moody(BatchedEviction):
    """Oldest first; raises while it is told to."""

    fails = False
    offered = 0

    def score(self, candidates: Any, out: Any) -> None:
        Moody.offered = max(Moody.offered, len(out))
        if Moody.fails:
            raise RuntimeError("not now")
        out[:] = candidates["last_use"]


class Choosy(BatchedAdmission):
    """Takes everything; raises while it is told to."""

    fails = False

    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        if Choosy.fails:
            raise RuntimeError("not now")


class Plugin:
    @hookimpl
    def kvframe_eviction(self) -> list[EvictionPolicy]:
        return [EvictionPolicy(name="moody", way="batched", summary="", make=lambda _: Moody())]

    @hookimpl
    def kvframe_admission(self) -> list[AdmissionPolicy]:
        return [AdmissionPolicy(name="choosy", way="batched", summary="", make=lambda _: Choosy())]


@pytest.fixture
def known() -> Iterator[Known]:
    registry = Known()
    registry.register(Plugin(), "moody")
    Moody.fails = Choosy.fails = False
    Moody.offered = 0
    yield registry
    Moody.fails = Choosy.fails = False


def settled(engine: Engine, seed: int) -> None:
    engine.run(text(seed, 9))
    engine.settle()
    engine.kv.check_integrity()


@pytest.mark.parametrize("on_error", ["raise", "fallback"])
@pytest.mark.parametrize("policy", [Moody, Choosy])
def test_a_policy_that_fails(known: Known, policy: Any, on_error: Any) -> None:
    """Of eviction with a full tier, of admission with room in it."""
    if policy is Moody:
        tier = host(4, eviction=EvictionConfig(policy="moody", on_error=on_error))
    else:
        tier = host(16, admission=TierAdmissionConfig(policy="choosy", on_error=on_error))
    engine = Engine([tier], registry=known)
    settled(engine, 1)
    if policy is Moody:
        settled(engine, 2)
    policy.fails = True
    if on_error == "raise":
        with pytest.raises(PolicyError, match="not now"):
            engine.run(text(3, 9))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settled(engine, 3)
        assert engine.tiers.lookup(text(3, 9)).tiers["host"] == 8
    policy.fails = False
    engine.settle()
    engine.kv.check_integrity()
    settled(engine, 4)
    assert engine.tiers.lookup(text(4, 9)).tiers["host"] == 8


@pytest.mark.parametrize(("window", "most"), [(2, 2), (0, 8), (None, 8)])
def test_a_window_of_a_tiers_own(known: Known, window: int | None, most: int) -> None:
    table = EvictionConfig(policy="moody", window=window, on_error="raise")
    engine = Engine([host(8, eviction=table)], registry=known, blocks=32)
    for seed in range(5):
        settled(engine, seed)
    assert Moody.offered == most
