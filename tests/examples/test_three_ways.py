"""One meaning in three ways: built in, by scores in Python, by victims named in Python.

lru, fifo and lfu are written again over the columns that policies are shown, looking at all there
is, and served by the same engine. Each must evict exactly as the built-in one does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from examples.serving.engine import Engine
from examples.serving.pages import Floats, Pages
from examples.serving.run import CONFIG, Outcome, model, serve
from examples.serving.runner import Runner
from examples.serving.sequence import Work
from examples.serving.workload import sessions

import kvframe
from kvframe.policies import BatchedEviction, Candidates

CHATS = sessions(12)
CAPACITIES = (24, 32, 40, 56, 72, 96)

Key = Callable[[Candidates], npt.NDArray[Any]]

KEYS: dict[str, Key] = {
    "lru": lambda blocks: blocks["last_use"],
    "fifo": lambda blocks: blocks["inserted"],
    "lfu": lambda blocks: blocks["uses"] * 1e9 + blocks["last_use"],
}


class Scored(BatchedEviction):
    """The lowest key goes first; the core sees to it that no block goes before its children."""

    columns = ("last_use", "inserted", "uses")
    window = 0

    def __init__(self, key: Key) -> None:
        self.key = key

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = self.key(candidates)


class Named(BatchedEviction):
    """As `Scored`, but it names the victims itself, and so keeps to the prefixes itself."""

    columns = ("last_use", "inserted", "uses", "block", "parent")
    window = 0

    def __init__(self, key: Key) -> None:
        self.key = key

    def victims(self, n: int, eligible: Candidates, out: npt.NDArray[np.int64]) -> None:
        keys, parents = self.key(eligible), eligible["parent"]
        children = np.bincount(parents[parents >= 0], minlength=len(parents))
        leaves = [(keys[i], i) for i in np.flatnonzero(children == 0)]
        heapify(leaves)
        for place in range(len(out)):
            _, i = heappop(leaves)
            out[place] = eligible["block"][i]
            if (parent := parents[i]) >= 0:
                children[parent] -= 1
                if children[parent] == 0:
                    heappush(leaves, (keys[parent], parent))


class Plugin:
    """Offers both again for each of `KEYS`."""

    @kvframe.hookimpl
    def kvframe_eviction(self) -> list[kvframe.EvictionPolicy]:
        return [
            kvframe.EvictionPolicy(
                name=f"{way.__name__.lower()}-{name}",
                way="batched",
                summary=f"{name}, written in Python",
                make=partial(make, way, key),
            )
            for name, key in KEYS.items()
            for way in (Scored, Named)
        ]


def make(way: type[Scored] | type[Named], key: Key, _options: object) -> BatchedEviction:
    return way(key)


class Blank(Runner):
    """Computes nothing: which block is evicted does not hang on what is said."""

    def run(self, work: list[Work]) -> Floats:
        return np.zeros((len(work), self.model.shape.vocab))


@cache
def registry() -> kvframe.Registry:
    found = kvframe.Registry()
    found.register(Plugin(), "three ways")
    return found


@cache
def served(eviction: str, capacity: int) -> Outcome:
    kv = kvframe.KVCacheManager.from_toml(
        CONFIG, registry=registry(), cache={"capacity": capacity}, eviction={"policy": eviction}
    )
    pages = Pages(capacity, kv.block_size, model().shape)
    return serve(Engine(kv, Blank(kv, model(), pages)), CHATS)


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("way", ["scored", "named"])
def test_python_evicts_as_the_core_does(way: str, name: str, capacity: int) -> None:
    ours, theirs = served(f"{way}-{name}", capacity), served(name, capacity)
    assert ours.kv.stats.counters()["policy_fallbacks"] == 0
    assert ours.kv.stats.counters()["evictions"] == theirs.kv.stats.counters()["evictions"] > 0
    assert ours.counters == theirs.counters
    assert ours.answers == theirs.answers


def test_the_policies_do_not_agree_by_chance() -> None:
    prefill = [[served(name, c).counters.prefill for c in CAPACITIES] for name in KEYS]
    assert all(a != b for i, a in enumerate(prefill) for b in prefill[:i])
