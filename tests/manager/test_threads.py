"""Many threads, one manager."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

from kvframe import CapacityError, KVCacheManager, UsageError
from kvframe.policies import BatchedEviction
from kvframe.results import NO_COPIES
from tests.workers import beside, together

from .helpers import manager, registry

THREADS, OPERATIONS = 8, 2_000
EXPECTED = ("extend the sequence first", "columns")
"""Refusals that the walk below runs into: prompt tokens without slots, a table too narrow."""


class Recent(BatchedEviction):
    """Most recently used first; its books are wrong if it is told things out of their order."""

    columns = ("last_use", "depth")
    window = 16

    def __init__(self) -> None:
        self.held: set[int] = set()

    def score(self, candidates: Any, out: Any) -> None:
        out[:] = candidates["depth"] - candidates["last_use"].astype(float)

    def insert(self, blocks: Any, now: int) -> None:
        for block in blocks.tolist():
            assert block not in self.held, "inserted twice"
            self.held.add(block)

    def remove(self, blocks: Any, why: str, now: int) -> None:
        for block in blocks.tolist():
            assert block in self.held, "removed before it was inserted"
            self.held.remove(block)


def hammer(kv: KVCacheManager, seed: int, operations: int) -> None:
    dice = np.random.default_rng(seed)
    table, slots = np.zeros((4, 16), np.int32), np.zeros(64, np.int64)
    live: list[int] = []
    done = 0
    while done < operations:
        done += 1
        kind = dice.integers(8)
        plan = NO_COPIES
        try:
            if kind <= 1 and len(live) < 4:
                prompt = dice.integers(0, 3, dice.integers(1, 24)).astype(np.uint32)
                grant = kv.allocate(prompt, partial=bool(dice.integers(2)))
                live.append(grant.seq)
            elif not live:
                kv.lookup(dice.integers(0, 2, 9))
            elif kind == 2:
                kv.commit(live[0], kv.lengths(live[0]).slots)
            elif kind == 3:
                plan = kv.step(append=live, tokens=[1] * len(live)).plan
            elif kind == 4 and len(live) < 4:
                live.append(kv.fork(live[-1]))
            elif kind == 5:
                kv.release(live.pop(0))
            elif kind == 6:
                kv.block_tables(live, table)
                counts = [min(1, kv.lengths(seq).slots) for seq in live]
                kv.slot_mapping(live, [0] * len(live), counts, slots)
            else:
                kv.truncate(live[-1], kv.lengths(live[-1]).slots // 2)
        except CapacityError:
            kv.release(live.pop()) if live else None
        except UsageError as error:
            if not any(reason in str(error) for reason in EXPECTED):
                raise
            kv.release(live.pop(0))
        for gathered in (plan, kv.take_plan()):
            if gathered:
                kv.done(gathered.ticket)
    for seq in live:
        kv.release(seq)


@pytest.mark.scenario("SA-6", "SA-B13", "FE-B28", "IL-B14", "I14")
@pytest.mark.parametrize("policy", ["lru", "slru", "recent"])
def test_threads_leave_the_books_in_order(policy: str) -> None:
    mine = Recent()
    kv = manager(64, policy=policy, known=registry("recent", lambda _: mine))
    together(*(partial(hammer, kv, seed, OPERATIONS) for seed in range(THREADS)))
    kv.check_integrity()
    stats = kv.stats.counters()
    assert (stats["live_sequences"], stats["policy_failures"]) == (0, 0)
    assert stats["evictions"] > 100
    assert stats["copies"] > 0
    kv.reset_prefix_cache()
    assert kv.counts() == (64, 0, 0, 64)
    kv.check_integrity()


def test_a_policy_with_books_is_told_in_order_whichever_thread_asks() -> None:
    class Dawdles(Recent):
        def insert(self, blocks: Any, now: int) -> None:
            time.sleep(2e-4)  # another thread has removed some of these by now
            super().insert(blocks, now)

    mine = Dawdles()
    kv = manager(16, policy="mine", known=registry("mine", lambda _: mine), on_error="fallback")

    def serve(first: int) -> None:
        for token in range(first, first + 100):
            with suppress(CapacityError):
                seq = kv.allocate([token] * 8).seq
                kv.commit(seq, 8)
                kv.release(seq)

    together(*(partial(serve, 1000 * at) for at in range(4)))
    assert kv.stats.counters()["evictions"] > 500
    assert kv.stats.counters()["policy_failures"] == 0
    kv.check_integrity()


def test_a_policy_that_waits_holds_up_nobody_else() -> None:
    """No callback runs under the lock: others go on while a policy thinks."""
    asked, answer = threading.Event(), threading.Event()

    class Slow(BatchedEviction):
        def score(self, candidates: Any, out: Any) -> None:
            asked.set()
            assert answer.wait(20)
            out[:] = 0

    kv = manager(3, policy="slow", known=registry("slow", lambda _: Slow()))
    for token in (1, 2, 3):
        seq = kv.allocate([token] * 4).seq
        kv.commit(seq, 4)
        kv.release(seq)
    with beside(lambda: kv.allocate([9] * 4), stop=answer.set):
        assert asked.wait(20)
        assert kv.counts() == (0, 3, 0, 3)
        taken = kv.allocate([1] * 4 + [5], until=4)
        assert taken.cached_tokens == 4
        kv.check_integrity()
    assert kv.counts() == (0, 1, 2, 3)
    kv.check_integrity()
