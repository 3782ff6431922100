"""The compiled policy against a naive twin in Python, under random requests that share prefixes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kvframe
from kvframe.errors import CapacityError
from kvframe.policies import BatchedEviction, Candidates

BLOCK = 4


class Twin(BatchedEviction):
    """Every block looked at: fewest uses by time in the cache, of equals the oldest."""

    columns = ("uses", "inserted")
    window = 0

    def __init__(self, options: object = None) -> None:
        pass

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        now = candidates.now + 1  # it is asked before the operation that evicts, and its tick
        worth = [
            (int(uses) / (float(now) - float(inserted) + 1.0), int(inserted))
            for uses, inserted in zip(candidates["uses"], candidates["inserted"], strict=True)
        ]
        ranks = {key: rank for rank, key in enumerate(sorted(set(worth)))}
        out[:] = [ranks[key] for key in worth]


class Plugin:
    """The twin, where a registry looks."""

    @kvframe.hookimpl
    def kvframe_eviction(self) -> list[kvframe.EvictionPolicy]:
        return [kvframe.EvictionPolicy(name="twin", way="batched", summary="", make=Twin)]


def manager(policy: str, capacity: int, **options: int) -> kvframe.KVCacheManager:
    known = kvframe.Registry()
    known.register(Plugin(), "twin")
    return kvframe.KVCacheManager.from_toml(
        registry=known,
        cache={"block_size": BLOCK, "capacity": capacity, "event_log": True},
        eviction={"policy": policy, "on_error": "raise", "options": options},
    )


def walk(kvs: list[kvframe.KVCacheManager], dice: random.Random, steps: int) -> None:
    """The same calls to each, which must answer the same."""
    running: list[int] = []
    known: list[list[int]] = [[]]

    def same(verb: str, *arguments: Any) -> Any:
        answers = []
        for kv in kvs:
            try:
                answers.append(getattr(kv, verb)(*arguments))
            except CapacityError as error:
                answers.append(str(error))
            kv.check_integrity()
        assert all(answer == answers[0] for answer in answers)
        return answers[0]

    for _ in range(steps):
        if running and dice.random() < 0.47:
            same("release", running.pop(dice.randrange(len(running))))
        else:
            start = dice.choice(known)
            tokens = start[: dice.randint(0, min(len(start), 4 * BLOCK))]
            tokens = tokens + dice.choices(range(9), k=dice.randint(1, 3 * BLOCK))
            grant = same("allocate", tokens)
            if not isinstance(grant, str):
                same("commit", grant.seq, len(tokens))
                running.append(grant.seq)
                known.append(tokens)


@pytest.mark.parametrize("seed", range(15))
def test_with_all_in_the_sample_it_equals_the_twin(seed: int) -> None:
    dice = random.Random(seed)
    capacity = dice.randint(8, 64)
    kvs = [manager("hyperbolic", capacity), manager("twin", capacity)]
    walk(kvs, dice, 250)
    one, two = (kv.log.take_events() for kv in kvs)
    assert all(np.array_equal(one[column], two[column]) for column in one)
    assert kvs[0].stats.counters()["evictions"] > 20
    assert kvs[0].stats.counters()["policy_failures"] == 0


def test_samples_repeat_and_follow_the_seed() -> None:
    def log(seed: int) -> list[int]:
        kv = manager("hyperbolic", 60, sample=2, seed=seed)
        walk([kv], random.Random(5), 400)
        events = kv.log.take_events()
        assert kv.stats.counters()["policy_failures"] == 0
        blocks: list[int] = events["block"][events["kind"] == kvframe.EventKind.EVICT].tolist()
        return blocks

    first = log(1)
    assert len(first) > 100
    assert log(1) == first
    assert log(2) != first


def test_often_used_outlives_old_and_new() -> None:
    kv = manager("hyperbolic", 9)

    def serve(first: int) -> int:
        grant = kv.allocate(np.arange(first, first + 2 * BLOCK + 1))
        kv.commit(grant.seq, 2 * BLOCK + 1)
        kv.release(grant.seq)
        return grant.cached_tokens

    for _ in range(6):
        serve(0)
    for first in range(100, 2_000, 100):
        serve(first)
        if first == 1_000:
            assert serve(0) == 2 * BLOCK
    assert kv.stats.counters()["evictions"] > 20
