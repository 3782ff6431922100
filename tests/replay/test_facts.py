"""A policy in Python is shown the same in a replay and an engine, and enough to have ghosts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from kvframe import EvictionPolicy, KVCacheManager, Registry, Resolved, _core, session_id
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import EvictionDriver
from kvframe.policies import COLUMNS, NO_NEXT_USE, BatchedEviction, Candidates
from kvframe.policies.batched import EVENTS
from kvframe.registry.hookspecs import hookimpl

from .arc import Arc

SIZE = 16


def registry(make: Callable[[], BatchedEviction]) -> Registry:
    class Plugin:
        @hookimpl
        def kvframe_eviction(self) -> list[EvictionPolicy]:
            policy = EvictionPolicy(
                name="mine", way="batched", summary="a test's", make=lambda _: make()
            )
            return [policy]

    known = Registry()
    known.register(Plugin(), "mine", "kvframe-test", "3.2.1")
    return known


def driver(make: Callable[[], BatchedEviction]) -> EvictionDriver:
    return EvictionDriver(registry(make).eviction("mine"), Terms(SIZE))


def manager(make: Callable[[], BatchedEviction], capacity: int) -> KVCacheManager:
    return KVCacheManager(
        Resolved.load(
            Path("/dev/null"),
            env={},
            registry=registry(make),
            cache={"block_size": SIZE, "capacity": capacity},
            eviction={"policy": "mine", "on_error": "raise"},
        )
    )


def rows(requests: int) -> list[dict[str, Any]]:
    """Sessions that go on, by numbers and by names, and prompts that come once."""
    dice = np.random.default_rng(32)
    grown: dict[int | str, list[int]] = {}
    names: list[int | str] = [1, 7, 2**40, "a", "agent-b", "7", 9, "c", "d", "e"]
    made, fresh = [], iter(range(1, 10**9))
    for i in range(requests):
        row: dict[str, Any] = {"timestamp": 10 * i, "output_length": 1}
        if dice.random() < 0.7:
            name = names[dice.integers(len(names))]
            chain = grown.setdefault(name, [next(fresh) for _ in range(2)])
            chain += [next(fresh) for _ in range(dice.integers(3))]
            grown[name] = chain = chain[:12] if dice.random() < 0.9 else []
            row["session_id"] = name
            ids = chain or [next(fresh)]
        else:
            ids = [next(fresh) for _ in range(dice.integers(1, 6))]
        made.append(row | {"hash_ids": list(ids), "input_length": SIZE * len(ids) + 1})
    for row in made:
        row["hash_ids"] = [*row["hash_ids"], next(fresh)]
    return made


def trace_of(folder: Path, made: list[dict[str, Any]]) -> _core.Trace:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return _core.Trace.load(str(path), SIZE)


@pytest.mark.scenario("F32")
@pytest.mark.parametrize("capacity", [13, 24, 60])
def test_arc_with_ghosts_of_its_own_is_the_built_in_one(tmp_path: Path, capacity: int) -> None:
    trace = trace_of(tmp_path, rows(1_200))
    mine = _core.replay(trace, driver(Arc), capacity, "engine", log=True)
    built_in = _core.replay(trace, "arc", capacity, "engine", log=True)
    assert mine["policy_failures"] == 0
    evicted = [r["events"]["key"][r["events"]["kind"] == 5] for r in (mine, built_in)]
    assert len(evicted[0]) == len(evicted[1]) > 500
    apart = np.flatnonzero((evicted[0] != evicted[1]).any(axis=1))
    assert len(apart) == 0, f"the first other victim is the {apart[0]}th of {len(evicted[0])}"
    lru = _core.replay(trace, "lru", capacity, "engine")
    assert mine["hit_tokens"] == built_in["hit_tokens"] != lru["hit_tokens"]


class Spy(BatchedEviction):
    """Least recently used; notes all that it is shown."""

    columns: ClassVar[tuple[str, ...]] = tuple(COLUMNS)

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self, name: str, *told: Any) -> None:
        self.seen.append((name, *(x.tolist() if isinstance(x, np.ndarray) else x for x in told)))

    def score(self, candidates: Candidates, out: Any) -> None:
        shown = {name: candidates[name].tolist() for name in self.columns}
        self.note("score", candidates.now, candidates.time, candidates.found, shown)
        out[:] = candidates["last_use"]

    def insert(self, blocks: Any, now: int) -> None:
        self.note("insert", blocks, now)

    def insert_keyed(self, blocks: Any, keys: Any, now: int) -> None:
        self.note("insert_keyed", blocks, keys, now)

    def on_miss(self, keys: Any, now: int) -> None:
        self.note("on_miss", keys, now)

    def hit(self, blocks: Any, now: int) -> None:
        self.note("hit", blocks, now)

    def acquire(self, blocks: Any, now: int) -> None:
        self.note("acquire", blocks, now)

    def release(self, blocks: Any, now: int) -> None:
        self.note("release", blocks, now)

    def remove(self, blocks: Any, why: str, now: int) -> None:
        self.note("remove", blocks, why, now)


def engine(kv: KVCacheManager, made: list[dict[str, Any]], nodes: list[list[int]]) -> None:
    """The history of a trace, as an engine that serves one request at a time tells it."""
    turns: dict[Any, int] = {}
    for row, chain in zip(made, nodes, strict=True):
        full = row["input_length"] // SIZE
        keys = np.array([_core.node_key(node) for node in chain[:full]], np.uint64)
        kv.expire_until(row["timestamp"])
        who: dict[str, Any] = {}
        if (name := row.get("session_id")) is not None:
            who = {"session": name, "turn": turns.get(name, 0)}
            turns[name] = who["turn"] + 1
        grant = kv.allocate(
            None,
            keys=keys.reshape(full, 2),
            num_tokens=row["input_length"],
            partial=True,
            until=full * SIZE,
            **who,
        )
        kv.commit(grant.seq, grant.granted_tokens)
        kv.release(grant.seq)


@pytest.mark.parametrize("event", EVENTS)
def test_a_policy_of_one_event_hears_of_it_what_one_of_all_does(tmp_path: Path, event: str) -> None:
    def score(_: BatchedEviction, candidates: Candidates, out: Any) -> None:
        out[:] = candidates["last_use"]

    kept = {name: vars(Spy)[name] for name in ("__init__", "note", event)}
    one: Any = type("One", (BatchedEviction,), {"score": score, **kept})
    trace, few, many = trace_of(tmp_path, rows(300)), one(), Spy()
    hears_few = driver(lambda: few)
    _core.replay(trace, hears_few, 24, "engine")
    _core.replay(trace, driver(lambda: many), 24, "engine")
    assert len(few.seen) > 50
    assert few.seen == [entry for entry in many.seen if entry[0] == event]
    assert hears_few.handled.bit_count() == (2 if event == "remove" else 1)


@pytest.mark.scenario("F32", "F33")
def test_a_replay_shows_a_policy_what_an_engine_does(tmp_path: Path) -> None:
    made = rows(400)
    trace = trace_of(tmp_path, made)
    replayed, served = Spy(), Spy()
    _core.replay(trace, driver(lambda: replayed), 24, "engine")
    kv = manager(lambda: served, 24)
    engine(kv, made, [trace.request(i)[4] for i in range(trace.requests)])
    assert len(replayed.seen) > 1_000
    assert {entry[0] for entry in replayed.seen} >= {"score", "on_miss", "insert_keyed", "hit"}
    for i, (one, two) in enumerate(zip(replayed.seen, served.seen, strict=True)):
        assert one == two, i
    shown = [entry[4] for entry in replayed.seen if entry[0] == "score"]
    sessions = {s for offer in shown for s in offer["session"]}
    assert {7, session_id("7"), session_id("agent-b")} <= sessions
    assert any(t > 0 for offer in shown for t in offer["last_use_time"])
    assert {u for offer in shown for u in offer["next_use"]} == {NO_NEXT_USE}
    assert all(key != [0, 0] for offer in shown for key in offer["key"])


class Sized(BatchedEviction):
    """Least recently used; notes how large the pool is."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def score(self, candidates: Candidates, out: Any) -> None:
        self.sizes.append(candidates.capacity)
        out[:] = candidates["last_use"]


def test_a_policy_learns_how_large_the_pool_is(tmp_path: Path) -> None:
    """In a replay; and of a manager whose pool changes its size."""
    policy = Sized()
    _core.replay(trace_of(tmp_path, rows(200)), driver(lambda: policy), 24, "engine")
    assert set(policy.sizes) == {24}
    policy = Sized()
    kv = manager(lambda: policy, 8)
    for size in (8, 5, 12):
        kv.resize(size)
        for at in range(8):
            grant = kv.allocate(np.arange(100 * at, 100 * at + 3 * SIZE))
            kv.commit(grant.seq, grant.granted_tokens)
            kv.release(grant.seq)
        assert policy.sizes[-1] == size
