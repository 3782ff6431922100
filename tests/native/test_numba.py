"""Policies compiled by numba from the signatures that kvframe gives, with the core's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from kvframe import KVCacheManager, _core
from kvframe.bench.traces import load
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.native import ACCESS, COLUMNS, NONE, SIGNATURES, NativePolicy

from .helpers import found, manager, serve

USES, LAST_USE = COLUMNS["uses"][0], COLUMNS["last_use"][0]
FIELDS = np.dtype([("sessions", np.uint64), ("inserted", np.uint64)], align=True)
BLOCK = np.dtype([("first", np.uint64), ("exposed", np.uint32), ("seen", np.uint32)], align=True)
MANY = 2**31
carray: Any = numba.carray  # type: ignore[attr-defined]


def compiled(*functions: Callable[..., int]) -> dict[str, Any]:
    """Each for the verb of its name. A decorator would compile where tests are only collected."""
    return {f.__name__: numba.cfunc(SIGNATURES[f.__name__])(f) for f in functions}


def score(state: Any, memory: Any, now: int, n: int, columns: Any, out: Any) -> int:
    """Fewest uses first, then least recently used: the built-in lfu."""
    uses = carray(columns[USES], n, np.uint32)
    last_use = carray(columns[LAST_USE], n, np.uint64)
    scores = carray(out, n)
    for i in range(n):
        scores[i] = uses[i] * 4294967296.0 + last_use[i]
    return 0


def test_every_signature_compiles() -> None:
    for name, signature in SIGNATURES.items():
        assert eval(signature, vars(types)).args, name


def test_a_score_by_columns_is_the_built_in_lfu() -> None:
    trace = load("conversation").trace
    policy = NativePolicy.of_functions(
        compiled(score), abi=(1, 0), wants=["uses", "last_use"], window=0
    )
    made = driver(found(lambda: policy), Terms(trace.block_size))
    ours = _core.replay(trace, made, 2_000, "engine")
    lfu = _core.replay(trace, "lfu", 2_000, "engine")
    assert ours["policy_failures"] == 0
    for key in ("hit_tokens", "evictions", "block_hits"):
        assert ours[key] == lfu[key]


def insert(
    state: Any, memory: Any, now: int, n: int, blocks: Any, parents: Any, depths: Any, keys: Any,
    use: Any,
) -> int:  # fmt: skip
    fields = carray(state, 1, FIELDS)
    fields[0].sessions += carray(use, 1, ACCESS)[0].session
    fields[0].inserted += n
    rows = carray(memory, MANY, BLOCK)
    for i in range(n):
        rows[blocks[i]].first = now
        rows[blocks[i]].exposed = 0
        rows[blocks[i]].seen += depths[i] + 1
    return 0


def on_evictable(state: Any, memory: Any, now: int, n: int, blocks: Any) -> int:
    rows = carray(memory, MANY, BLOCK)
    for i in range(n):
        rows[blocks[i]].exposed = 1
    return 0


def acquire(state: Any, memory: Any, now: int, n: int, blocks: Any) -> int:
    rows = carray(memory, MANY, BLOCK)
    for i in range(n):
        rows[blocks[i]].exposed = 0
    return 0


def remove(state: Any, memory: Any, now: int, block: int, why: int) -> int:
    carray(memory, MANY, BLOCK)[block].exposed = 0
    return 0


def victim(state: Any, memory: Any, now: int) -> int:
    """The exposed block that became findable first, of eight there are."""
    rows = carray(memory, MANY, BLOCK)
    best = NONE
    for i in range(8):
        if rows[i].exposed and (best == NONE or rows[i].first < rows[best].first):
            best = i
    return best


def test_an_order_in_the_cores_memory_is_the_built_in_fifo() -> None:
    policy = NativePolicy.of_functions(
        compiled(insert, on_evictable, acquire, remove, victim),
        abi=(1, 0),
        wants=["depths"],
        block_bytes=BLOCK.itemsize,
        state=np.zeros(1, FIELDS),
    )
    ours = manager(lambda: policy, event_log=True)
    twin = KVCacheManager.from_toml(
        cache={"capacity": 8, "block_size": 4, "event_log": True}, eviction={"policy": "fifo"}
    )
    for first in (0, 100, 0, 200, 300, 100, 0, 400, 200, 0):
        for kv in (ours, twin):
            serve(kv, first, 8 + first // 50)
    one, two = ours.log.take_events(), twin.log.take_events()
    assert all(np.array_equal(one[column], two[column]) for column in one)
    assert ours.stats.counters()["policy_failures"] == 0
    assert ours.stats.counters()["evictions"] > 5
