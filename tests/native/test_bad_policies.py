"""Native policies that answer nonsense: the engine stays up, the policy is named.

Their functions are Python's, by ctypes: what matters is what they answer.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from kvframe import KVCacheManager, PolicyError, _core
from kvframe.bench.traces import load
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.native import NONE

from .helpers import found, manager, of, serve

BLOCKS, SIZE = 4, 4
numbers = count()
Bodies = dict[str, Callable[..., Any]]


def lowest(exposed: set[int]) -> Bodies:
    """A good one: the lowest exposed block."""

    def on_evictable(state: int, memory: int, now: int, n: int, blocks: Any) -> int:
        exposed.update(blocks[:n])
        return 0

    def acquire(state: int, memory: int, now: int, n: int, blocks: Any) -> int:
        exposed.difference_update(blocks[:n])
        return 0

    def remove(state: int, memory: int, now: int, block: int, why: int) -> int:
        exposed.discard(block)
        return 0

    def victim(state: int, memory: int, now: int) -> int:
        return min(exposed, default=NONE)

    return {"on_evictable": on_evictable, "acquire": acquire, "remove": remove, "victim": victim}


def twice() -> Bodies:
    """Names the same block again and again."""
    first: list[int] = []
    good = lowest(set())

    def victim(*_: int) -> int:
        first.append(good["victim"](0, 0, 0))
        return first[0]

    return {**good, "victim": victim}


def scored(value: float, last: float) -> Bodies:
    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        for i in range(n):
            out[i] = last if i == n - 1 else value
        return 0

    return {"score": score}


def unset(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
    return 0


ONCE: dict[str, tuple[Callable[[], Bodies], str]] = {
    "none": (lambda: {"victim": lambda *_: NONE}, "victim named none of 4 cached blocks"),
    "no block": (
        lambda: {"victim": lambda *_: 77},
        r"victim named block 77, which may not be evicted \(free\)",
    ),
    "huge": (lambda: {"victim": lambda *_: 2**40}, "named 1099511627776, which is no block id"),
    "error": (lambda: {"victim": lambda *_: -7}, "victim answered error -7"),
    "a block in use": (
        lambda: {"victim": lambda *_: 4},
        r"victim named block 4, which may not be evicted \(committed\)",
    ),
    "twice": (twice, r"victim named block \d, which may not be evicted \(pending\)"),
    "nan": (lambda: scored(0.0, float("nan")), r"score 3 of 4 \(block \d\) is NaN or unset"),
    "unset": (lambda: {"score": unset}, r"score 0 of 4 \(block \d\) is NaN or unset"),
    "error of score": (lambda: {"score": lambda *_: 3}, "score answered error 3"),
}


def full(bodies: Bodies, on_error: str) -> tuple[KVCacheManager, str, int]:
    """A full cache: four blocks of two prompts cached, one in use; its policy's name; the owner."""
    name = f"bad-{next(numbers)}"
    kv = manager(lambda: of(bodies), BLOCKS + 1, SIZE, on_error=on_error, name=name)
    serve(kv, 0, 2 * SIZE)
    serve(kv, 100, 2 * SIZE)
    grant = kv.allocate(list(range(500, 500 + SIZE)))
    kv.commit(grant.seq, SIZE)
    return kv, name, grant.seq


def warned(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = call()
    return answer, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("case", ONCE)
def test_the_built_in_order_stands_in(case: str) -> None:
    bodies, what = ONCE[case]
    kv, name, _ = full(bodies(), "fallback")
    need = 3 * SIZE
    grant, messages = warned(lambda: kv.allocate(list(range(900, 900 + need))))
    kv.check_integrity()
    assert kv.stats.counters()["evictions"] == 3
    # Least recently used: the first prompt and then the second one's tail.
    assert kv.lookup(list(range(2 * SIZE + 1))).tokens == 0
    if case != "twice":
        assert kv.lookup(list(range(100, 101 + 2 * SIZE))).tokens == SIZE
    stats = kv.stats.counters()
    assert stats["policy_failures"] >= 1
    assert 1 <= stats["policy_fallbacks"] <= 3
    (message,) = messages
    assert message.startswith(f"{name} (kvframe-test 3.2.1): PolicyError: ")
    assert message.endswith("; the built-in order takes this decision")
    assert re.search(what, message), message
    kv.commit(grant.seq, need)
    kv.release(grant.seq)
    # A second failure is counted, and not told again.
    _, messages = warned(lambda: serve(kv, 2_000, 4 * SIZE))
    assert messages == []
    assert kv.stats.counters()["policy_failures"] > stats["policy_failures"]
    kv.check_integrity()


@pytest.mark.parametrize("case", [case for case in ONCE if "score" in ONCE[case][0]()])
def test_a_strict_policy_that_scores_refuses_what_it_cannot_decide(case: str) -> None:
    bodies, what = ONCE[case]
    kv, name, _ = full(bodies(), "raise")
    before = kv.counts(), kv.stats.counters()["evictions"], kv.inspect.eviction_order().tolist()
    for failures in (1, 2):
        with pytest.raises(PolicyError, match=what) as caught:
            kv.allocate(list(range(900, 900 + 3 * SIZE)))
        assert str(caught.value).startswith(f"{name} (kvframe-test 3.2.1): ")
        assert kv.stats.counters()["policy_failures"] == failures
    assert (
        kv.counts(),
        kv.stats.counters()["evictions"],
        kv.inspect.eviction_order().tolist(),
    ) == before
    kv.check_integrity()


@pytest.mark.parametrize("case", [case for case in ONCE if "victim" in ONCE[case][0]()])
def test_a_strict_policy_with_an_order_decides_nothing_after_a_fault(case: str) -> None:
    bodies, what = ONCE[case]
    kv, name, _ = full(bodies(), "raise")
    # It is in the middle of the operation, so the built-in order finishes that one.
    grant, messages = warned(lambda: kv.allocate(list(range(900, 900 + 3 * SIZE))))
    assert len(messages) == 1
    kv.commit(grant.seq, 3 * SIZE)
    kv.release(grant.seq)
    before = kv.counts(), kv.inspect.eviction_order().tolist()
    with pytest.raises(PolicyError, match=what) as caught:
        kv.allocate(list(range(2_000, 2_000 + 3 * SIZE)))
    assert str(caught.value).startswith(f"{name} (kvframe-test 3.2.1): ")
    with pytest.raises(PolicyError, match=what):
        kv.evict_until(4)
    assert (kv.counts(), kv.inspect.eviction_order().tolist()) == before
    kv.check_integrity()


@pytest.mark.parametrize("event", ["insert", "hit", "acquire", "release", "on_evictable", "remove"])
@pytest.mark.parametrize("on_error", ["fallback", "raise"])
def test_a_policy_that_failed_on_an_event_is_not_called_again(event: str, on_error: str) -> None:
    calls: list[str] = []
    good = lowest(set())

    def noted(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return 5 if name == event else body(*arguments)

        return call

    rest = {name: lambda *_: 0 for name in ("insert", "hit", "release")}
    bodies = {name: noted(name, body) for name, body in {**rest, **good}.items()}
    kv = manager(lambda: of(bodies), BLOCKS, SIZE, on_error=on_error, name=f"lost-{next(numbers)}")

    def run() -> None:
        serve(kv, 0, SIZE)
        serve(kv, 0, SIZE + 1)
        serve(kv, 0, 2 * SIZE)
        for first in range(100, 900, 100):
            serve(kv, first, 3 * SIZE)

    if on_error == "raise":  # pytest sees to the filters
        warnings.simplefilter("ignore")
        with pytest.raises(PolicyError, match="state is incomplete"):
            run()
    else:
        _, messages = warned(run)
        assert f"{event} answered error 5; its state is incomplete" in messages[0]
        assert len(messages) == 1
        # Like lru to the end, from whatever it had decided before.
        assert kv.lookup(list(range(800, 800 + 3 * SIZE))).tokens == 2 * SIZE
    assert calls[-1] == event
    assert calls.count(event) == 1
    assert kv.stats.counters()["policy_failures"] == 1
    kv.check_integrity()


def test_a_step_refuses_the_growth_that_a_strict_policy_cannot_decide() -> None:
    kv, name, seq = full({"score": lambda *_: 3}, "raise")
    stepped = kv.step(append=[seq], counts=[SIZE], tokens=list(range(600, 600 + SIZE)))
    (refusal,) = stepped.refused
    assert f"{name} (kvframe-test 3.2.1): PolicyError: score answered error 3" in str(refusal)
    kv.check_integrity()


def test_a_replay_tells_at_its_end() -> None:
    trace = load("conversation").trace

    def replay(strict: bool) -> Any:
        policy = found(lambda: of({"victim": lambda *_: NONE}))
        made = driver(policy, Terms(trace.block_size, strict=strict))
        return _core.replay(trace, made, 20_000, "engine")

    with pytest.raises(PolicyError, match="victim named none of"):
        replay(strict=True)
    got, messages = warned(lambda: replay(strict=False))
    assert "victim named none of" in messages[0]
    lru = _core.replay(trace, "lru", 20_000, "engine")
    assert got["hit_tokens"] == lru["hit_tokens"]
    assert got["policy_failures"] == got["evictions"]
