"""lru built in, batched, and native in three forms: the same log, call by call and in a replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import (
    CapacityError,
    Keep,
    KVCacheManager,
    NeverFitsError,
    Request,
    Retention,
    TokenRange,
    _core,
)
from kvframe.bench.traces import load
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.policies import BatchedEviction, Candidates

from .helpers import found, in_c, manager


class Batched(BatchedEviction):
    """Least recently used, in Python."""

    columns = ("last_use",)
    window = 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = candidates["last_use"]


FORMS: dict[str, tuple[str, Callable[[], object]]] = {
    "batched": ("batched", Batched),
    "order": ("native", lambda: in_c("order")),
    "column": ("native", lambda: in_c("column")),
    "books": ("native", lambda: in_c("books")),
}
SIZE = 4


def builtin(blocks: int, **cache: Any) -> KVCacheManager:
    kv: KVCacheManager = KVCacheManager.from_toml(
        cache={"capacity": blocks, "block_size": SIZE, "event_log": True, **cache}
    )
    return kv


class Twins:
    """The same calls to several caches, which must answer the same."""

    def __init__(self, kvs: dict[str, KVCacheManager]) -> None:
        self.kvs = kvs

    def call(self, verb: str, *arguments: Any) -> Any:
        """What they all answer; a refusal for want of room as its text."""

        def answer(kv: KVCacheManager) -> Any:
            try:
                return getattr(kv, verb)(*arguments)
            except (CapacityError, NeverFitsError) as error:
                return str(error)

        (first, *others) = [(name, answer(kv)) for name, kv in self.kvs.items()]
        for name, other in others:
            assert other == first[1], (name, verb)
        return first[1]


def asked(dice: random.Random) -> Retention | None:
    """For ever: what an order of the policy's own makes of a priority that ends is its own."""
    front, rest = (Keep(dice.choice([0, 20, 35, 80])) for _ in range(2))
    ranges = [TokenRange(0, SIZE, front), TokenRange(SIZE, None, rest)]
    return dice.choice([None, Retention(ranges), Retention((), front)])


def walk(
    twins: Twins, dice: random.Random, capacity: int, steps: int, retains: bool = False
) -> None:
    running: dict[int, int] = {}
    known: list[list[int]] = [[]]
    for _ in range(steps):
        fate = dice.random()
        if running and fate < 0.4:
            seq = dice.choice(list(running))
            del running[seq]
            twins.call("release", seq)
        elif running and fate < 0.6:
            seq = dice.choice(list(running))
            more = dice.choices(range(50), k=dice.randint(1, 2 * SIZE))
            if twins.call("append", seq, more) is None:
                running[seq] += len(more)
                twins.call("commit", seq, running[seq])
        elif fate < 0.62:
            twins.call("reset_prefix_cache")
        elif fate < 0.64:
            twins.call("evict_until", dice.randint(0, capacity))
        else:
            start = dice.choice(known)
            tokens = start[: dice.randint(0, min(len(start), 5 * SIZE))]
            tokens = tokens + dice.choices(range(9), k=dice.randint(1, 3 * SIZE))
            grant = twins.call(
                "allocate", Request(tokens, retention=asked(dice) if retains else None)
            )
            if not isinstance(grant, str):
                twins.call("commit", grant.seq, len(tokens))
                running[grant.seq] = len(tokens)
                known.append(tokens)
        twins.call("counts")


@pytest.mark.parametrize("seed", range(12))
def test_the_same_calls_leave_the_same_log(seed: int) -> None:
    dice = random.Random(seed)
    capacity = dice.randint(8, 40)
    kvs = {"builtin": builtin(capacity)}
    for name, (way, make) in FORMS.items():
        kvs[name] = manager(make, capacity, SIZE, way=way, event_log=True)
    walk(Twins(kvs), dice, capacity, 300, retains=seed % 3 == 1)
    logs = {name: kv.log.take_events() for name, kv in kvs.items()}
    for name, kv in kvs.items():
        kv.check_integrity()
        assert kv.stats.counters()["policy_failures"] == 0, name
        for column, values in logs["builtin"].items():
            assert np.array_equal(values, logs[name][column]), (name, column)
    assert kvs["builtin"].stats.counters()["evictions"] > 20


@cache
def lru_of(trace: str, blocks: int) -> dict[str, Any]:
    log: dict[str, Any] = _core.replay(load(trace).trace, "lru", blocks, "engine", log=True)
    return log


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("trace", ["conversation", pytest.param("agent", marks=pytest.mark.slow)])
def test_a_replay_gives_the_same_log(form: str, trace: str) -> None:
    way, make = FORMS[form]
    blocks = 1_000
    loaded = load(trace).trace
    made = driver(found(make, way), Terms(loaded.block_size))
    ours = _core.replay(loaded, made, blocks, "engine", log=True)
    lru = lru_of(trace, blocks)
    assert ours["policy_failures"] == 0
    assert ours["hit_tokens"] == lru["hit_tokens"]
    for column, values in lru["events"].items():
        assert np.array_equal(values, ours["events"][column]), column
