"""A built-in policy written in Python decides as the built-in one does, block for block."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from kvframe import EvictionPolicy, Registry, _core, hookimpl
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import EvictionDriver
from kvframe.errors import PolicyError
from kvframe.policies import BatchedEviction

from .traces import replay, trace


class Ranked(BatchedEviction):
    """Ranks by columns, the first decides; all blocks are offered."""

    columns: ClassVar[tuple[str, ...]] = ("last_use", "uses", "inserted", "depth")
    window = 0

    def keys(self, offer: Any) -> list[Any]:
        raise NotImplementedError

    def score(self, offer: Any, out: Any) -> None:
        columns = [-offer["depth"].astype(np.int64), *self.keys(offer)[::-1]]
        out[np.lexsort(columns)] = np.arange(len(out))


class Recency(Ranked):
    def keys(self, offer: Any) -> list[Any]:
        return [offer["last_use"]]


class First(Ranked):
    def keys(self, offer: Any) -> list[Any]:
        return [offer["inserted"]]


class Fewest(Ranked):
    def keys(self, offer: Any) -> list[Any]:
        return [offer["uses"], offer["last_use"]]


class Segmented(Ranked):
    def keys(self, offer: Any) -> list[Any]:
        return [offer["uses"] >= 2, offer["last_use"]]


class Named(Ranked):
    """The same as `Recency`, but it names victims, by books of its own."""

    columns = ("block", "depth")

    def __init__(self) -> None:
        self.used: dict[int, int] = {}

    def insert(self, blocks: Any, now: int) -> None:
        self.used.update(dict.fromkeys(blocks.tolist(), now))

    hit = release = insert

    def remove(self, blocks: Any, why: str, now: int) -> None:
        for block in blocks.tolist():
            del self.used[block]

    def victims(self, n: int, offer: Any, out: Any) -> None:
        last = [self.used[block] for block in offer["block"].tolist()]
        order = np.lexsort([-offer["depth"].astype(np.int64), last])
        out[:] = offer["block"][order[: len(out)]]


def driver(make: type[BatchedEviction], name: str = "mine", strict: bool = True) -> EvictionDriver:
    class Plugin:
        @hookimpl
        def kvframe_eviction(self) -> list[EvictionPolicy]:
            policy = EvictionPolicy(
                name=name, way="batched", summary="a test's", make=lambda _: make()
            )
            return [policy]

    known = Registry()
    known.register(Plugin(), name, "kvframe-test", "3.2.1")
    return EvictionDriver(known.eviction(name), Terms(512, strict=strict))


PAIRS = [
    ("lru", Recency),
    ("fifo", First),
    ("lfu", Fewest),
    ("slru", Segmented),
    ("lru", Named),
]


@pytest.mark.parametrize(("name", "make"), PAIRS, ids=lambda p: getattr(p, "__name__", p))
@pytest.mark.parametrize("mode", ["trace", "engine"])
def test_one_meaning(name: str, make: type[BatchedEviction], mode: str) -> None:
    mine = _core.replay(trace("synthetic"), driver(make), 1_000, mode, log=True)
    built_in = _core.replay(trace("synthetic"), name, 1_000, mode, log=True)
    assert mine["policy_failures"] == 0
    evicted = [r["events"]["key"][r["events"]["kind"] == 5] for r in (mine, built_in)]
    assert len(evicted[0]) == len(evicted[1])
    apart = np.flatnonzero((evicted[0] != evicted[1]).any(axis=1))
    assert len(apart) == 0, f"the first other victim is the {apart[0]}th of {len(evicted[0])}"
    assert mine["hit_tokens"] == built_in["hit_tokens"]


class Broken(BatchedEviction):
    def score(self, offer: Any, out: Any) -> None:
        raise ValueError("no idea")


class Unset(BatchedEviction):
    def score(self, offer: Any, out: Any) -> None:
        out[:1] = 0


class Nowhere(BatchedEviction):
    def victims(self, n: int, offer: Any, out: Any) -> None:
        out[:] = 10**6


BAD = [
    (Broken, "ValueError: no idea"),
    (Unset, "is NaN or unset"),
    (Nowhere, "block 1000000 was not offered"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_a_replay_stops_where_its_policy_fails(make: type[BatchedEviction], message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        _core.replay(trace("synthetic"), driver(make), 1_000, "engine")
    assert str(caught.value).startswith("mine (kvframe-test 3.2.1): ")


@pytest.mark.parametrize(("make", "message"), BAD)
def test_or_goes_on_in_the_built_in_order_if_it_may(
    make: type[BatchedEviction], message: str
) -> None:
    name = f"bad-{make.__name__.lower()}"
    made = driver(make, name, strict=False)
    with pytest.warns(RuntimeWarning, match=message):
        got = _core.replay(trace("synthetic"), made, 1_000, "engine")
    assert got["policy_failures"] > 1_000
    assert got["hit_tokens"] == replay("synthetic", "lru", 1_000, "engine")["hit_tokens"]


def test_a_policy_may_stop_a_replay_like_ctrl_c() -> None:
    class Stop(BatchedEviction):
        def score(self, offer: Any, out: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.replay(trace("synthetic"), driver(Stop), 1_000, "engine")
