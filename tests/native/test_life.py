"""States begin and end once; memory grows and keeps; arguments are what the header says."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvframe import Config, ConfigError, KVCacheManager, PolicyError, _core
from kvframe.config.policies import Chosen
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.native import ACCESS, COLUMNS, FACTS, NONE, NativePolicy
from kvframe.policies import COLUMNS as BATCHED
from kvframe.policies import NO_NEXT_USE, BatchedEviction, Candidates

from . import helpers
from .helpers import Function, found, in_c, manager, of, serve

SIZE = 4
Bodies = dict[str, Callable[..., Any]]


def ok(*_: object) -> int:
    return 0


def test_one_state_for_each_cache_and_each_ends_once() -> None:
    states = helpers.compiled().states
    before = states()
    caches = [manager(lambda: in_c("order")) for _ in range(3)]
    assert states() == before + 3
    for kv in caches:
        serve(kv, 0, 24)
    del kv, caches[0]
    assert states() == before + 2
    caches.clear()
    assert states() == before


def test_destroy_gets_what_create_made() -> None:
    made: list[int] = []
    ended: list[int] = []

    def create(config: int) -> int:
        made.append(0x1000 * (len(made) + 1))
        return made[-1]

    bodies: Bodies = {"create": create, "destroy": ended.append, "score": ok}
    policy = of(bodies)
    first, second = manager(lambda: policy), manager(lambda: policy)
    assert (made, ended) == ([0x1000, 0x2000], [])
    del first
    assert ended == [0x1000]
    del second
    assert ended == [0x1000, 0x2000]


def test_a_cache_that_cannot_be_made_leaves_no_state() -> None:
    states = helpers.compiled().states
    before = states()
    made = driver(found(lambda: in_c("order")), Terms(SIZE))
    with pytest.raises(ConfigError, match=r"cache\.capacity = 0: must be between 1 and"):
        _core.Manager({"cache.capacity": 0, "cache.block_size": SIZE, "eviction.policy": made})
    del made
    assert states() == before


def test_create_may_refuse() -> None:
    ended: list[int] = []
    bodies: Bodies = {"create": lambda _: None, "destroy": ended.append, "victim": ok}
    with pytest.raises(
        PolicyError, match=r"^test \(kvframe-test 3\.2\.1\): create answered a null"
    ):
        manager(lambda: of(bodies))
    assert ended == []


def test_create_gets_the_pool_and_the_options() -> None:
    seen: list[Any] = []

    class Config(ctypes.Structure):
        _fields_ = [
            ("size", ctypes.c_uint32),
            ("blocks", ctypes.c_uint32),
            ("block_size", ctypes.c_uint32),
            ("n_options", ctypes.c_uint32),
            ("options", ctypes.POINTER(ctypes.c_double)),
        ]

    def create(config: int) -> int:
        told = Config.from_address(config)
        seen.append((told.size, told.blocks, told.block_size, told.options[: told.n_options]))
        return 1

    manager(lambda: of({"create": create, "victim": ok}, options=[0.5, 64, True]), 24, SIZE)
    assert seen == [(24, 24, SIZE, [0.5, 64.0, 1.0])]


def test_growth_is_told_or_refused() -> None:
    told: list[tuple[int, int]] = []

    def resize(state: int, blocks: int) -> int:
        told.append((state, blocks))
        return int(blocks > 30)

    bodies: Bodies = {"create": lambda _: 7, "score": ok}
    kv = manager(lambda: of({**bodies, "resize": resize}), 8, SIZE)
    kv.resize(4)
    kv.resize(8)  # no more than it knows
    kv.resize(20)
    with pytest.raises(
        PolicyError, match=r"^test \(kvframe-test 3\.2\.1\): resize answered error 1"
    ):
        kv.resize(31)
    assert kv.inspect.options()["blocks"] == 20
    assert told == [(7, 20), (7, 31)]
    fixed = manager(lambda: of(bodies), 8, SIZE)
    with pytest.raises(PolicyError, match="created for 8 blocks and has no resize: 9 are too many"):
        fixed.resize(9)
    fixed.resize(5)
    given = manager(lambda: of({"score": ok}, block_bytes=8), 8, SIZE)
    given.resize(1_000)  # memory of the core's grows by itself
    for resized in (kv, fixed, given):
        resized.check_integrity()


def test_memory_grows_and_keeps_what_is_in_it() -> None:
    wrong: list[int] = []

    def insert(state: int, memory: int, now: int, n: int, blocks: Any, *_: Any) -> int:
        for block in blocks[:n]:
            ctypes.c_uint64.from_address(memory + 24 * block + 16).value = 1000 + block
        return 0

    def remove(state: int, memory: int, now: int, block: int, why: int) -> int:
        if ctypes.c_uint64.from_address(memory + 24 * block + 16).value != 1000 + block:
            wrong.append(block)
        return 0

    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        for i in range(n):
            out[i] = i
        return int(memory % 16)

    bodies: Bodies = {"insert": insert, "remove": remove, "score": score}
    kv = manager(lambda: of(bodies, block_bytes=24), 64, SIZE)
    for first in range(0, 6_000, 100):
        serve(kv, first, 3 * SIZE)
    kv.resize(400)
    for first in range(10_000, 40_000, 100):
        serve(kv, first, 3 * SIZE)
    assert wrong == []
    assert kv.stats.counters()["evictions"] > 200
    kv.check_integrity()


def test_each_cache_has_a_copy_of_the_state() -> None:
    begun = np.array([3, 5], np.uint64)
    seen: list[tuple[int, int]] = []

    def hit(state: int, *_: Any) -> int:
        words = (ctypes.c_uint64 * 2).from_address(state)
        words[0] += 1
        seen.append((words[0], words[1]))
        return 0

    policy = of({"hit": hit, "score": ok}, state=begun)
    for _ in range(2):
        kv = manager(lambda: policy)
        for _ in range(3):
            serve(kv, 0, 2 * SIZE + 1)
    assert seen == [(4, 5), (5, 5)] * 2
    assert begun.tolist() == [3, 5]


def test_events_bring_what_was_asked_for() -> None:
    seen: list[Any] = []

    def insert(
        state: int, memory: int, now: int, n: int, blocks: Any, parents: Any, depths: Any,
        keys: Any, use: int,
    ) -> int:  # fmt: skip
        told = np.frombuffer(ctypes.string_at(use, ACCESS.itemsize), ACCESS)[0].item()
        *told, next_uses = told
        again = np.frombuffer(ctypes.string_at(next_uses, 4 * n), np.uint32).tolist()
        seen.append((blocks[:n], parents[:n], depths[:n], keys[: 2 * n], (*told, again), now))
        return 0

    kv = manager(lambda: of({"insert": insert, "score": ok}, wants=FACTS), 8, SIZE)
    tokens = list(range(3 * SIZE))
    grant = kv.allocate(
        tokens, session=9, turn=2, request_class=3, priority=-4, next_use=np.array([70, 50])
    )
    kv.commit(grant.seq, 2 * SIZE)
    kv.commit(grant.seq, 3 * SIZE)
    keys = kv.blocks.hash_blocks(tokens)
    use = (9, 2, 3, -4, 3 * SIZE)
    assert [row[:5] for row in seen] == [
        ([0, 1], [NONE, 0], [0, 1], keys[:2].ravel().tolist(), (*use, [70, 50])),
        ([2], [1], [2], keys[2:].ravel().tolist(), (*use, [NO_NEXT_USE])),
    ]
    assert seen[0][5] < seen[1][5]


def test_what_was_not_asked_for_is_null() -> None:
    seen: list[Any] = []

    def insert(*arguments: Any) -> int:
        seen.extend(bool(pointer) for pointer in arguments[5:8])
        told = np.frombuffer(ctypes.string_at(arguments[8], ACCESS.itemsize), ACCESS)[0]
        assert not told["next_uses"]
        return 0

    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        seen.append([name for name, (place, _) in COLUMNS.items() if columns[place]])
        seen.append((state, memory))
        for i in range(n):
            out[i] = i
        return 0

    bodies: Bodies = {"insert": insert, "score": score}
    kv = manager(lambda: of(bodies, wants=["uses", "depths"]), 2, SIZE)
    serve(kv, 0, 2 * SIZE)
    serve(kv, 100, SIZE)
    assert seen == [False, True, False, ["uses"], (None, None), False, True, False]


def test_columns_are_those_of_the_batched_way() -> None:
    """One offer, read by both."""
    native: list[dict[str, list[int]]] = []
    batched: list[dict[str, list[int]]] = []

    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        got = {}
        for name, (place, kind) in COLUMNS.items():
            bytes_ = ctypes.string_at(columns[place], n * np.dtype(kind).itemsize)
            got[name] = np.frombuffer(bytes_, kind).tolist()
        native.append(got)
        for i in range(n):
            out[i] = i
        return 0

    class Reads(BatchedEviction):
        columns = tuple(COLUMNS)

        def score(self, candidates: Candidates, out: Any) -> None:
            batched.append({name: candidates[name].tolist() for name in COLUMNS})
            out[:] = range(len(out))

    def run(kv: KVCacheManager) -> None:
        for i in range(40):
            tokens = list(range(100 * (i % 7), 100 * (i % 7) + SIZE * (1 + i % 5)))
            grant = kv.allocate(tokens, session=i, turn=i % 3, request_class=i % 2, priority=-i)
            kv.commit(grant.seq, len(tokens))
            kv.release(grant.seq)

    run(manager(lambda: of({"score": score}, wants=COLUMNS), 12, SIZE))
    run(manager(Reads, 12, SIZE, way="batched"))
    assert len(native) == len(batched) > 5
    assert set(BATCHED) - set(COLUMNS) == {
        "key",
        "last_use_time",
        "inserted_time",
        "copies",
        "tenant",
    }
    for one, two in zip(native, batched, strict=True):
        one["parent"] = [-1 if place == NONE else place for place in one["parent"]]
        assert one == two


def test_functions_live_as_long_as_a_cache_may_call_them() -> None:
    score = Function("score", ok)
    kept = weakref.ref(score)
    policy = NativePolicy.of_functions({"score": score}, abi=(1, 0))
    kv = manager([policy].pop)
    del score, policy
    gc.collect()
    assert kept() is not None
    del kv
    gc.collect()
    assert kept() is None


def test_a_window_goes_over_what_the_policy_asks_for() -> None:
    offered: list[int] = []

    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        offered.append(n)
        for i in range(n):
            out[i] = i
        return 0

    cases = [(None, None, 256), (4, None, 4), (0, None, 300), (4, 7, 7), (4, 0, 300)]
    for own, asked, expected in cases:
        policy = of({"score": score}, window=own)
        kv = manager([policy].pop, 300, SIZE, window=asked)
        for first in range(0, 30_000, 100):
            serve(kv, first, SIZE)
        offered.clear()
        serve(kv, 50_000, SIZE)
        assert offered == [expected]
        assert kv.inspect.options()["window"] == expected % 300


def test_a_state_begins_and_ends_with_a_change_of_policy() -> None:
    """In, out and in again under a manager that serves: what is cached stays, no state is left."""
    states = helpers.compiled().states
    before = states()
    kv = KVCacheManager(block_size=SIZE, capacity=16)
    serve(kv, 0, 24)
    held = kv.counts().cached
    then = Config.of(block_size=SIZE, capacity=16, eviction="fifo").resolve()
    then = replace(then, eviction=Chosen(found(lambda: in_c("order"))))
    kv.settings.reload(then)
    assert (states(), kv.counts().cached) == (before + 1, held)
    serve(kv, 1000, 24)
    serve(kv, 2000, 40)
    kv.check_integrity()
    kv.settings.rollback()
    assert states() == before
    kv.settings.reload(then)
    serve(kv, 3000, 24)
    kv.check_integrity()
    del kv
    gc.collect()
    assert states() == before
