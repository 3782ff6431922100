"""Engine mode is the manager itself: its event log is that of the same calls in Python."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from kvframe import CacheConfig, Config, EvictionConfig, KVCacheManager, _core
from kvframe.errors import UsageError

from . import traces

REQUESTS, SIZE = 2_000, 512
POLICIES = ["lru", "slru", "lfu", "fifo", "lfuda"]
CAPACITIES = [1_000, 4_000]


@pytest.fixture(scope="module")
def head() -> _core.Trace:
    return traces.head("conversation", REQUESTS)


@cache
def key(node: int) -> tuple[int, int]:
    low, high = _core.node_key(node)
    return low, high


def calls(kv: Any, trace: _core.Trace, next_use: dict[int, list[int]] | None = None) -> None:
    """What a replay does, one call at a time."""
    for i in range(trace.requests):
        _, prompt, _, session, nodes = trace.request(i)
        full = prompt // SIZE
        keys = np.array([key(node) for node in nodes[:full]], np.uint64).reshape(full, 2)
        more: dict[str, Any] = {}
        if next_use is not None:
            more["next_use"] = np.array(next_use[i], np.uint32)
        if session is not None:
            more["session"] = session
        grant = kv.allocate(
            None, keys=keys, num_tokens=prompt, partial=True, until=full * SIZE, **more
        )
        kv.commit(grant.seq, grant.granted_tokens)
        kv.release(grant.seq)


def assert_same_log(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert list(one) == list(two)
    assert len(one["kind"]) > 50_000
    for name, column in one.items():
        assert column.dtype == two[name].dtype
        assert np.array_equal(column, two[name]), name


def outlook(trace: _core.Trace) -> dict[int, list[int]]:
    """The request that uses each block next, or 2^32 - 1."""
    after: dict[int, int] = {}
    found: dict[int, list[int]] = {}
    for i in reversed(range(trace.requests)):
        _, prompt, _, _, nodes = trace.request(i)
        nodes = nodes[: prompt // SIZE]
        found[i] = [after.get(node, 2**32 - 1) for node in nodes]
        after.update(dict.fromkeys(nodes, i))
    return found


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.scenario("I10")
def test_the_log_of_a_replay_is_that_of_the_python_calls(
    policy: str, capacity: int, head: _core.Trace
) -> None:
    got = _core.replay(head, policy, capacity, "engine", log=True)
    kv = KVCacheManager(
        Config(
            cache=CacheConfig(block_size=SIZE, capacity=capacity, event_log=True),
            eviction=EvictionConfig(policy=policy),
        )
    )
    calls(kv, head)
    assert_same_log(got["events"], kv.log.take_events())
    assert got["hit_tokens"] == kv.stats.counters()["hit_tokens"]
    assert got["evictions"] == kv.stats.counters()["evictions"] > 0
    kv.check_integrity()


class Bare:
    """The core under a policy that no configuration may name, with the manager's verbs."""

    def __init__(self, policy: str, capacity: int) -> None:
        self.core = _core.Manager(
            {
                "cache.capacity": capacity,
                "cache.block_size": SIZE,
                "cache.event_log": True,
                "eviction.policy": policy,
            }
        )

    def allocate(self, prompt: None, **options: Any) -> Any:
        from kvframe import Allocation

        return Allocation(*self.core.allocate(_core.Request(prompt, **options)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)


@pytest.mark.parametrize("policy", ["opt", "opt-forced"])
def test_the_optimum_too_where_its_outlook_is_handed_in(policy: str, head: _core.Trace) -> None:
    got = _core.replay(head, policy, 1_000, "engine", log=True)
    kv = Bare(policy, 1_000)
    calls(kv, head, outlook(head))
    assert_same_log(got["events"], kv.core.take_events())
    kv.check_integrity()


def test_without_a_log_none_is_kept(head: _core.Trace) -> None:
    assert "events" not in _core.replay(head, "lru", 1_000, "engine")


def test_a_log_and_python_do_not_change_what_is_counted(head: _core.Trace) -> None:
    plain = _core.replay(head, "slru", 1_000, "engine")
    logged = _core.replay(head, "slru", 1_000, "engine", log=True)
    for name in plain.keys() - {"seconds", "prepare_seconds"}:
        assert plain[name] == logged[name], name


@pytest.mark.parametrize("mode", ["s1", "Engine", "", "Timed"])
def test_an_unknown_mode_is_named(mode: str, head: _core.Trace) -> None:
    with pytest.raises(UsageError, match=f'mode = "{mode}": must be trace, engine or timed'):
        _core.replay(head, "lru", 10, mode)
