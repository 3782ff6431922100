"""A whole index in Python, in a replay: it finds what the core's own does."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import _core
from kvframe.drivers.asker import Terms
from kvframe.drivers.prefix import PrefixDriver
from kvframe.errors import PolicyError
from kvframe.policies import BatchedPrefix

from ..manager.matchers import DictIndex, matchers
from .traces import replay, trace


def driver(make: Any, name: str = "mine", strict: bool = True) -> PrefixDriver:
    return PrefixDriver(matchers(name, lambda _: make()).prefix(name), Terms(512, strict=strict))


@pytest.mark.parametrize("mode", ["trace", "engine"])
def test_the_same_hits_as_hash(mode: str) -> None:
    mine = driver(DictIndex)
    got = _core.replay(trace("synthetic"), "lru", 1_000, mode, matcher=mine)
    want = replay("synthetic", "lru", 1_000, mode)
    for count in ("hit_tokens", "evictions", "block_hits", "after_gap_hit_tokens"):
        assert got[count] == want[count], count
    assert (mine.failures, mine.wrong) == (0, 0)


def test_a_minimum_length() -> None:
    class AtLeast(BatchedPrefix):
        def take(self, prompts: Any, found: Any, out: Any) -> None:
            out[found < 4096] = 0

    got = _core.replay(trace("synthetic"), "lru", 1_000, "engine", matcher=driver(AtLeast))
    assert 0 < got["hit_tokens"] < replay("synthetic", "lru", 1_000, "engine")["hit_tokens"]


class Broken(DictIndex):
    def match(self, prompts: Any) -> Any:
        raise ValueError("no idea")


def test_a_replay_stops_where_it_fails() -> None:
    with pytest.raises(PolicyError, match="no idea"):
        _core.replay(trace("synthetic"), "lru", 1_000, "engine", matcher=driver(Broken))


def test_or_goes_on_with_the_core_s_own() -> None:
    broken = driver(Broken, "broken-index", strict=False)
    with pytest.warns(RuntimeWarning, match="prompts are matched without it"):
        got = _core.replay(trace("synthetic"), "lru", 1_000, "engine", matcher=broken)
    assert broken.failures > 1_000
    assert got["hit_tokens"] == replay("synthetic", "lru", 1_000, "engine")["hit_tokens"]
