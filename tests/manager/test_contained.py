"""A policy that names what somebody holds, or writes into what it is told, harms nobody."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, PolicyError
from kvframe.policies import BatchedEviction

from .helpers import VERSION, cached, manager, registry, state


class Names(BatchedEviction):
    """Names one block first, whoever holds it."""

    wanted = -1

    def victims(self, n: int, eligible: Any, out: Any) -> None:
        out[:] = eligible["block"][: len(out)]
        out[0] = self.wanted


def held(name: str, on_error: str, pinned: bool) -> tuple[KVCacheManager, Names, int]:
    """A full pool: a block that is held, and two that nobody holds."""
    policy = Names()
    known = registry(name, lambda _: policy)
    kv = manager(3, policy=name, known=known, on_error=on_error)
    if pinned:
        cached(kv, [1] * 4)
        pin = kv.pins.pin([1] * 5)
        assert pin is not None
        policy.wanted = pin.block
    else:
        grant = kv.allocate([1] * 4)
        kv.commit(grant.seq, 4)
        policy.wanted = int(kv.block_table(grant.seq)[0])
    cached(kv, [2] * 4)
    cached(kv, [3] * 4)
    return kv, policy, policy.wanted


@pytest.mark.parametrize("pinned", [False, True], ids=["running", "pinned"])
def test_a_block_that_is_held_stays(pinned: bool) -> None:
    name = f"names-held-{pinned}".lower()
    kv, _, block = held(name, "fallback", pinned)
    with pytest.warns(RuntimeWarning, match=f"block {block} was not offered") as told:
        kv.allocate([9] * 4)
    assert str(told[0].message).startswith(f"{name} (kvframe-test {VERSION}): ")
    # The least recently used of the others went.
    assert [kv.lookup([token] * 5).tokens for token in (1, 2, 3)] == [4, 0, 4]
    assert kv.stats.counters()["policy_failures"] == 1
    kv.check_integrity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kv.allocate([8] * 4)
    assert kv.stats.counters()["policy_failures"] == 2
    assert kv.lookup([1] * 5).tokens == 4
    kv.check_integrity()


@pytest.mark.parametrize("pinned", [False, True], ids=["running", "pinned"])
def test_a_strict_one_that_names_it_is_stopped_before_anything_moved(pinned: bool) -> None:
    kv, policy, block = held(f"names-held-strict-{pinned}".lower(), "raise", pinned)
    before = state(kv)
    with pytest.raises(PolicyError, match=f"block {block} was not offered"):
        kv.allocate([9] * 4)
    assert state(kv) == before
    policy.wanted = kv.inspect.eviction_order()[0]
    kv.allocate([9] * 4)
    kv.check_integrity()


def test_events_cannot_be_written_into() -> None:
    seen = []

    class Writes(BatchedEviction):
        columns = ("block",)

        def insert(self, blocks: Any, now: int) -> None:
            seen.append(blocks)
            blocks[:] = 0

        def score(self, candidates: Any, out: Any) -> None:
            out[:] = candidates["block"]

    known = registry("writes-events", lambda _: Writes())
    kv = manager(3, policy="writes-events", known=known, on_error="fallback")
    for token in (1, 2, 3):
        cached(kv, [token] * 4)
    with pytest.warns(RuntimeWarning, match="read-only"):
        kv.allocate([9] * 4)
    assert [kv.lookup([token] * 5).tokens for token in (1, 2, 3)] == [0, 4, 4]
    assert not seen[0].flags.writeable
    # Its books are not whole, so it is not asked again.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kv.allocate([8] * 4)
    assert len(seen) == 1
    assert kv.stats.counters()["policy_failures"] == 2
    kv.check_integrity()


def test_what_it_keeps_of_an_offer_is_its_own() -> None:
    """Arrays are made for one call; a policy that keeps and changes them changes nothing else."""
    kept: list[Any] = []

    class Keeps(BatchedEviction):
        columns = ("last_use", "block")

        def score(self, candidates: Any, out: Any) -> None:
            for array in kept:
                array.fill(np.nan)
            out[:] = -candidates["last_use"].astype(float)
            kept.append(out)

    known = registry("keeps", lambda _: Keeps())
    kv = manager(3, policy="keeps", known=known, on_error="raise")
    for token in (1, 2, 3, 4, 5):
        cached(kv, [token] * 4)
    assert [kv.lookup([token] * 5).tokens for token in (1, 2, 3, 4, 5)] == [4, 4, 0, 0, 4]
    assert len(kept) == 2
    kv.check_integrity()
