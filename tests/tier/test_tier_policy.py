"""The keyed piece: every built-in policy and a batched plugin over blocks without parents."""

from __future__ import annotations

import random
from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pytest

import kvframe
from kvframe import KVCacheManager, _core
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.errors import CapacityError, ConfigError, UsageError
from kvframe.flat import Access, TierPolicy
from kvframe.policies import BatchedEviction, Candidates, builtin
from kvframe.registry import Registry
from kvframe.registry.descriptors import EvictionPolicy

BUILTIN = [policy.name for policy in builtin.BUILTIN if not policy.replay_only]
MADE: list[OldestFirst] = []


class OldestFirst(BatchedEviction):
    """One plugin for all places: the block that came first is evicted first."""

    columns = ("inserted", "depth")

    def __init__(self, options: object) -> None:
        self.events: list[str] = []
        self.decisions = 0
        MADE.append(self)

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        self.decisions += 1
        out[:] = candidates["inserted"]

    def remove(self, blocks: npt.NDArray[np.uint32], why: str, now: int) -> None:
        self.events += [why] * len(blocks)


class Plugin:
    @kvframe.hookimpl
    def kvframe_eviction(self) -> list[EvictionPolicy]:
        return [EvictionPolicy(name="oldest", way="batched", summary="fifo", make=OldestFirst)]


def registry() -> Registry:
    registry = Registry()
    registry.register(Plugin(), "oldest")
    return registry


def batched(capacity: int, **policy: object) -> TierPolicy[str]:
    table = {"policy": "oldest", **policy}
    resolved = Resolved.load("/dev/null", env={}, registry=registry(), eviction=table)
    return TierPolicy(resolved, capacity)


def store(tier: TierPolicy[str], *keys: str) -> None:
    tier.on_miss(keys)
    for key in keys:
        tier.insert(key)
        tier.release([key])


@pytest.mark.parametrize("name", [*BUILTIN, "oldest"])
def test_random_work_never_takes_an_owned_or_protected_block(name: str) -> None:
    capacity = 24
    rng = random.Random(name)
    tier = batched(capacity) if name == "oldest" else TierPolicy[str].named(name, capacity)
    owned: dict[str, int] = {}
    idle: set[str] = set()
    for step in range(600):
        verb = rng.choice(["store", "hit", "claim", "release", "remove", "refresh"])
        here = sorted(idle | owned.keys())
        some = rng.sample(here, min(len(here), rng.randint(0, 3)))
        if verb == "store":
            new = [k for k in {f"k{rng.randrange(60)}" for _ in range(3)} if k not in here]
            short = len(new) - (capacity - len(tier))
            tier.on_miss(new)
            if short > 0:
                before = tier.order()
                victims = tier.victims(short, some)
                free = idle - set(some)
                if victims is None:
                    assert len(free) < short
                    assert tier.order() == before
                    continue
                assert len(set(victims)) == short
                assert set(victims) <= free
                idle -= set(victims)
            for key in new:
                tier.insert(key, depth=step % 7, use=Access(session=step % 5, tokens=step))
                owned[key] = 1
        elif verb == "hit":
            tier.hit(some)
        elif verb == "refresh":
            tier.refresh(some)
        elif verb == "claim":
            tier.acquire(some)
            for key in some:
                owned[key] = owned.get(key, 0) + 1
            idle -= set(some)
        elif verb == "release":
            some = [key for key in some if key in owned]
            tier.release(some)
            for key in some:
                owned[key] -= 1
                if not owned[key]:
                    del owned[key]
                    idle.add(key)
        elif rng.random() < 0.3:
            tier.remove(some, evicted=rng.random() < 0.5)
            for key in some:
                owned.pop(key, None)
            idle -= set(some)
        tier.check_integrity()
        assert set(tier.order()) == idle
        assert len(tier) == len(idle) + len(owned)
    assert tier.failures == 0


def test_lru_is_an_ordered_dict() -> None:
    tier = TierPolicy[str].named("lru", 50)
    twin: OrderedDict[str, None] = OrderedDict()
    rng = random.Random(7)
    for _ in range(3000):
        key = f"k{rng.randrange(90)}"
        if key in twin:
            tier.hit([key])
            twin.move_to_end(key)
            continue
        if len(twin) == 50:
            assert tier.victims(1) == [twin.popitem(last=False)[0]]
        store(tier, key)
        twin[key] = None
    assert tier.order() == list(twin)


def test_a_ghost_is_known_again() -> None:
    """ARC takes what comes back into its second list, and lets the first one grow for it."""
    tier = TierPolicy[str].named("arc", 4)
    store(tier, "a", "b", "c", "d")
    tier.hit(["c", "d"])  # in the second list: "a" and "b" can become ghosts
    assert tier.victims(1) == ["a"]
    store(tier, "e")
    assert tier.victims(1) == ["b"]
    store(tier, "a")
    assert tier.order() == ["c", "d", "a", "e"]  # without a ghost: e, a, c, d
    tier.clear()
    store(tier, "a")
    assert len(tier) == 1


def test_misuse_is_refused_and_changes_nothing() -> None:
    tier = TierPolicy[str].named("lru", 2)
    store(tier, "a", "b")
    with pytest.raises(UsageError, match="'a' is in the tier already"):
        tier.insert("a")
    with pytest.raises(CapacityError):
        tier.insert("c")
    with pytest.raises(UsageError, match="'c' is not in the tier"):
        tier.hit(["a", "c"])
    with pytest.raises(UsageError, match="no owner left"):
        tier.release(["a"])
    with pytest.raises(ConfigError, match="know the future"):
        TierPolicy[str].named("opt", 2)
    with pytest.raises(UsageError, match="pass name ="):
        TierPolicy[int].named("lru", 2).insert(3)
    assert tier.order() == ["a", "b"]
    assert "c" not in tier


def test_pins_told_when_asked() -> None:
    for name in [*BUILTIN, "oldest"]:
        tier = batched(6) if name == "oldest" else TierPolicy[str].named(name, 6)
        store(tier, *"abcdef")
        pinned = set(tier.order()[:2])
        last = tier.order()[2:]
        taken = tier.take(9, lambda key, pinned=pinned: key not in pinned)  # type: ignore[misc]
        assert sorted(taken) == sorted(last), name
        assert set(tier) == pinned, name
        tier.check_integrity()


@pytest.mark.parametrize("name", ["lru", "arc", "oldest"])
def test_a_question_that_fails_loses_no_block_that_was_taken(name: str) -> None:
    tier = batched(4) if name == "oldest" else TierPolicy[str].named(name, 4)
    store(tier, *"abcd")

    def eligible(key: str) -> bool:
        if key == "c":
            raise RuntimeError("gone")
        return key != "a"

    assert tier.take(3, eligible) == ["b"]
    assert sorted(tier) == ["a", "c", "d"]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="gone"):
            tier.take(3, eligible)
        assert sorted(tier) == ["a", "c", "d"]
        tier.check_integrity()
    assert tier.take(3, lambda key: key != "a") == ["c", "d"]
    assert tier.order() == ["a"]


@pytest.mark.parametrize("name", ["lru", "arc", "oldest"])
def test_an_interrupt_loses_no_block_that_was_taken(name: str) -> None:
    tier = batched(5) if name == "oldest" else TierPolicy[str].named(name, 5)
    store(tier, *"abcde")

    def eligible(key: str) -> bool:
        if key == "d":
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        tier.take(5, eligible)
    assert sorted(tier) == ["d", "e"]
    with pytest.raises(KeyboardInterrupt):
        tier.take(5, eligible)
    store(tier, "b")  # it came back
    # They are asked about again; who may not go now waits for the next call.
    assert tier.take(1, lambda key: key != "a") == ["c"]
    assert tier.take(2, lambda key: True) == ["a", "d"]
    assert sorted(tier.take(9, lambda key: True)) == ["b", "e"]
    tier.check_integrity()


def test_a_tier_without_a_capacity_is_as_large_as_it_was() -> None:
    tier = TierPolicy[str].named("s3-fifo")
    store(tier, *map(str, range(100)))
    assert tier.victims(30) is not None
    store(tier, *map(str, range(100, 130)))
    assert len(tier) == 100
    tier.check_integrity()


def test_one_plugin_runs_in_the_manager_the_tier_and_the_replay() -> None:
    MADE.clear()
    table = {"policy": "oldest"}
    found = registry()
    resolved = Resolved.load(
        "/dev/null",
        env={},
        registry=found,
        eviction=table,
        cache={"capacity": 8, "block_size": 4},
    )
    manager = KVCacheManager(resolved)
    for prompt in range(6):
        grant = manager.allocate([prompt * 100 + i for i in range(12)])
        manager.commit(grant.seq, 12)
        manager.release(grant.seq)
    tier = TierPolicy[str](resolved, 4)
    store(tier, *"abcd")
    tier.hit(["a"])
    assert tier.victims(2) == ["a", "b"]
    line = '{"timestamp": %d, "input_length": 1024, "output_length": 1, "hash_ids": [%d, %d]}\n'
    lines = "".join(line % (n, 2 * n, 2 * n + 1) for n in range(8))
    made = driver(resolved.eviction.loaded, Terms(512, resolved.eviction.options))
    _core.replay(_core.Trace.parse(lines.encode(), "eight"), made, 8, "trace")
    in_manager, in_tier, in_replay = MADE
    assert type(in_manager) is type(in_tier) is type(in_replay) is OldestFirst
    assert all(policy.decisions > 0 for policy in MADE)
    assert in_tier.events == []  # delivered with the next decision


def test_a_plugin_that_fails_is_stood_in_for(recwarn: pytest.WarningsRecorder) -> None:
    tier = batched(4)
    store(tier, *"abcd")
    MADE[-1].score = lambda candidates, out: 1 / 0  # type: ignore[method-assign, assignment]
    assert tier.victims(2) == ["a", "b"]
    assert tier.failures == 1
    assert any("oldest" in str(warning.message) for warning in recwarn)
    strict = batched(4, on_error="raise")
    store(strict, *"abcd")
    MADE[-1].score = lambda candidates, out: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(kvframe.PolicyError, match="oldest"):
        strict.victims(2)
    assert len(strict) == 4
