"""Without the interpreter: while another thread holds its lock, after a fork, and no calls back."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Any

import pytest

from kvframe import HandleError, KVCacheManager, _core
from kvframe.bench.traces import load
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from tests.workers import beside, together

from . import helpers
from .helpers import found, in_c, manager, of, serve


@pytest.fixture
def jealous() -> Any:
    """The interpreter changes threads only when one lets go of its lock."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1_000.0)
    yield
    sys.setswitchinterval(before)


def test_a_replay_runs_while_python_is_busy(jealous: None) -> None:
    """The busy thread does not let go before the replay has long ended."""
    trace = load("conversation").trace
    made = driver(found(lambda: in_c("order")), Terms(trace.block_size))
    alone = _core.replay(trace, "lru", 4_000, "engine")
    states = helpers.compiled().states  # a PyDLL would let go
    with beside(lambda: _core.replay(trace, made, 4_000, "engine")) as (replay,):
        while states() == 0:
            time.sleep(0.001)
        # It has begun; nothing lets go of the interpreter from here on, but for the end of the sum.
        began = time.perf_counter()
        busy, laps = 0.0, 0
        while busy < 10 * alone["seconds"] + 1.0:
            laps += 1
            busy = time.perf_counter() - began
        ended = time.perf_counter()
    assert time.perf_counter() - ended < 0.5, "it had waited for the interpreter"
    assert replay.answer["hit_tokens"] == alone["hit_tokens"]
    assert laps > 1_000


def test_many_threads_share_one_cache() -> None:
    kv = manager(lambda: in_c("order"), 64, 4)

    def run(seed: int) -> None:
        for i in range(300):
            serve(kv, 1_000 * ((seed * 31 + i * 7) % 50), 4 * (1 + i % 5))

    together(*(partial(run, seed) for seed in range(6)))
    kv.check_integrity()
    assert kv.stats.counters()["policy_failures"] == 0


def test_a_policy_that_calls_its_own_cache_is_refused_not_hung() -> None:
    refused: list[str] = []
    caches: list[KVCacheManager] = []

    def release(*_: Any) -> int:
        for kv in caches:
            with pytest.raises(HandleError) as caught:
                kv.counts()
            refused.append(str(caught.value))
        return 0

    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        return release()

    caches.append(manager(lambda: of({"release": release, "score": score})))
    serve(caches[0], 0, 8)
    assert refused == ["a native policy has called its own manager, which waits for it"]
    caches.clear()


def test_a_policy_may_look_at_another_cache() -> None:
    other = manager(lambda: in_c("order"))
    seen: list[int] = []

    def release(*_: Any) -> int:
        seen.append(other.counts().free)
        return 0

    kv = manager(lambda: of({"release": release, "score": lambda *_: 0}))
    serve(kv, 0, 8)
    serve(other, 0, 8)
    serve(kv, 100, 8)
    assert seen == [8, 6]


def test_a_forked_child_refuses_and_ends_quietly() -> None:
    kv = manager(lambda: in_c("order"))
    serve(kv, 0, 8)
    child = os.fork()
    if child == 0:
        try:
            kv.counts()
        except HandleError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert serve(kv, 0, 9) == 8
