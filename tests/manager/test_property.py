"""20,000 random calls under every policy that serves, with an integrity check after each."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from kvframe import GroupConfig, Registry
from kvframe.policies import BatchedEviction

from .helpers import manager, registry
from .long_walk import LongWalk

STEPS = 20_000
SEED = int(os.environ.get("KVFRAME_SEED", "20261"))
BLOCKS, SIZE = 24, 4


class Books(BatchedEviction):
    """Ranks by books of its own, and checks that every event told of a block makes sense."""

    columns = ("block", "last_use", "uses", "inserted", "depth")
    window = 8

    def __init__(self) -> None:
        self.findable: set[int] = set()
        self.owned: set[int] = set()
        self.uses: dict[int, int] = {}

    def insert(self, blocks: Any, now: int) -> None:
        for block in blocks.tolist():
            assert block not in self.findable, f"{block} inserted twice"
            self.findable.add(block)
            self.owned.add(block)
            self.uses[block] = 1

    def hit(self, blocks: Any, now: int) -> None:
        for block in blocks.tolist():
            assert block in self.findable, f"{block} hit before it was inserted"
            self.uses[block] += 1

    def claim(self, blocks: Any, now: int) -> None:
        for block in blocks.tolist():
            assert block in self.findable, f"{block} claimed before it was inserted"
            assert block not in self.owned, f"{block} claimed twice"
            self.owned.add(block)

    def release(self, blocks: Any, now: int) -> None:
        for block in blocks.tolist():
            assert block in self.findable, f"{block} released before it was inserted"
            self.owned.discard(block)

    def remove(self, blocks: Any, why: str, now: int) -> None:
        assert why in ("evicted", "invalidated")
        for block in blocks.tolist():
            assert block in self.findable, f"{block} removed before it was inserted"
            assert why == "invalidated" or block not in self.owned, f"{block} evicted while owned"
            self.findable.discard(block)
            self.owned.discard(block)

    def check(self, offer: Any) -> None:
        blocks = offer["block"].tolist()
        assert len(set(blocks)) == len(blocks)
        assert set(blocks) <= self.findable - self.owned, "offered what is not to be had"
        assert [self.uses[b] for b in blocks] == offer["uses"].tolist()
        assert (offer["inserted"] <= offer["last_use"]).all()
        assert (offer["last_use"] <= offer.now).all()


class Scores(Books):
    def score(self, offer: Any, out: Any) -> None:
        self.check(offer)
        out[:] = (7919 * offer["last_use"].astype(np.int64)) % 101


class Names(Books):
    window = 0

    def victims(self, n: int, offer: Any, out: Any) -> None:
        self.check(offer)
        # Offered children first, so any order by depth, deepest first, is a legal one.
        order = np.lexsort((offer["last_use"], -offer["depth"].astype(np.int64)))
        out[:] = offer["block"][order][: len(out)]


def known() -> Registry:
    found = registry("test-scores", lambda _: Scores())
    from .helpers import Holder

    found.register(Holder("test-names", lambda _: Names()), "test-names", "kvframe-test", "1")
    return found


def serving() -> list[str]:
    registry_ = known()
    rows = [row for row in registry_.list() if (row.kind, row.state) == ("eviction", "ok")]
    return [row.name for row in rows if not registry_.eviction(row.name).descriptor.replay_only]


def test_the_policies_that_ship_are_all_walked() -> None:
    assert {"lru", "fifo", "lfu", "lfuda", "slru", "test-scores", "test-names"} <= set(serving())


@pytest.mark.scenario("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I13", "T5", "S1")
@pytest.mark.scenario("S2", "ST41", "CB-B16")
@pytest.mark.parametrize("policy", serving())
def test_random_calls(policy: str) -> None:
    """A failure prints the seed: run it again with KVFRAME_SEED=..."""
    kinds: list[dict[str, Any]] = [
        {},
        {"hash": "xxh3-128"},
        {"null_block": True, "event_log": True},
        {"groups": [GroupConfig(name="a"), GroupConfig(name="w", kind="sliding_window", window=6)]},
        {"groups": [GroupConfig(name="w", kind="sliding_window", window=4)]},
    ]
    hits = refusals = evictions = 0
    for run, kind in enumerate(kinds):
        kv = manager(BLOCKS, SIZE, policy=policy, known=known(), **kind)
        walk = LongWalk(kv, random.Random(SEED + run), SIZE)
        try:
            for step in range(STEPS // len(kinds)):
                walk.one()
                if step % 100 == 0:
                    kv.take_events()
            walk.finish()
        except BaseException as error:
            error.add_note(f"policy {policy}, kind {kind}, seed {SEED} + {run}, step {step}")
            raise
        hits += walk.hits
        refusals += walk.refusals
        evictions += kv.stats()["evictions"]
    assert min(hits, refusals, evictions) > 200, (hits, refusals, evictions)
