"""Two policies of the tests' own, which check that all they are told makes sense."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kvframe import Registry
from kvframe.policies import BatchedEviction
from kvframe.registry.discovery import Candidate, installed

from ..manager.helpers import Holder

SPARE = 8
"""Tokens that t-lru may have to compute again."""


class Books(BatchedEviction):
    """Keeps books of its own: every event told of a block must make sense."""

    columns = ("block", "last_use", "uses", "inserted", "depth")
    window = 0

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

    def acquire(self, blocks: Any, now: int) -> None:
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
    """The most used is evicted first, then the lowest id."""

    def score(self, offer: Any, out: Any) -> None:
        self.check(offer)
        out[:] = offer["block"] - 1000.0 * offer["uses"]


class Names(Books):
    """The deepest is evicted first, then the lowest id."""

    def victims(self, n: int, offer: Any, out: Any) -> None:
        self.check(offer)
        order = np.lexsort((offer["block"], -offer["depth"].astype(np.int64)))
        out[:] = offer["block"][order][: len(out)]


class Installed(Registry):
    """Looks once what is installed: a walk builds hundreds of managers."""

    found: Sequence[Candidate] | None = None

    def _candidates(self) -> Sequence[Candidate]:
        if self.found is None:
            self.found = installed()
        return [*self._local, *self.found]


@cache
def known() -> Registry:
    """The policies that are installed, and those two."""
    found = Installed()
    found.register(Holder("test-scores", lambda _: Scores()), "test-scores", "kvframe-test", "1")
    found.register(Holder("test-names", lambda _: Names()), "test-names", "kvframe-test", "1")
    return found


@cache
def serving() -> list[str]:
    """Names of those that can serve: not those that need to know the future."""
    registry = known()
    rows = [row for row in registry.list() if (row.kind, row.state) == ("eviction", "ok")]
    return [row.name for row in rows if not registry.eviction(row.name).descriptor.replay_only]
