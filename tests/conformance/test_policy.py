"""Scenarios of the policies: which block is evicted next, by each rule, through the public face."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, PluginError, Request
from kvframe.config import Resolved

from .helpers import cached, evicted, found, manager, words


def under(policy: str, blocks: int, **options: Any) -> KVCacheManager:
    """A manager of blocks of 16 tokens under a policy with these options."""
    cache = {"capacity": blocks, "block_size": 16}
    table = {"policy": policy, "options": options}
    return KVCacheManager(Resolved.load("/dev/null", env={}, cache=cache, eviction=table))


def deaths(kv: KVCacheManager, *names: int) -> list[int]:
    """Which of these one-block prompts are evicted first, as blocks are asked for one by one."""
    order = []
    for _ in names:
        loan = np.zeros(1, np.int32)
        kv.blocks.take(out=loan)
        order += [name for name in names if name not in order and not found(kv, words(name))]
    return order


@pytest.mark.scenario("FE-13")
@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("lru", [2, 3, 1]),  # 1 was used last
        ("fifo", [1, 2, 3]),  # 1 came first
        ("clock", [2, 3, 1]),  # 1 was used, and gets a second chance
    ],
)
def test_the_order_of_lru_fifo_and_clock(policy: str, order: list[int]) -> None:
    kv = under(policy, 3)
    for name in (1, 2, 3):
        cached(kv, words(name))
    kv.release(kv.allocate([*words(1), 7], until=16).seq)
    assert deaths(kv, 1, 2, 3) == order


@pytest.mark.scenario("S21")
def test_a_burst_does_not_make_a_zombie() -> None:
    """50 uses at once and then silence: that is no protection, nor for ever."""
    for policy, survives in (("slru", 16), ("slru-decay", 0)):
        options = {} if policy == "slru" else {"debounce_ticks": 1_000, "decay_ticks": 5_000}
        kv = under(policy, 4, **options)
        for _ in range(50):
            cached(kv, [*words(1), 7])
        for scan in range(100, 120):
            cached(kv, words(scan))
        assert found(kv, words(1)) == survives, policy
    # Uses that lie apart do protect, until the block was idle for long.
    kv = under("slru-decay", 4, debounce_ticks=10, decay_ticks=200)
    for scan in range(100, 110):
        cached(kv, [*words(1), 7])
        cached(kv, words(scan))
    assert found(kv, words(1)) == 16
    for scan in range(110, 300):
        cached(kv, words(scan))
    assert found(kv, words(1)) == 0


@pytest.mark.scenario("ST27")
def test_slru_keeps_what_was_used_twice() -> None:
    kv = under("slru", 4)
    cached(kv, words(2))
    for _ in range(3):
        cached(kv, [*words(1), 7])
    for scan in range(100, 110):
        cached(kv, words(scan))
        assert found(kv, words(1)) == 16
    assert found(kv, words(2)) == 0


@pytest.mark.scenario("ST40")
def test_a_scheduler_orders_requests_by_their_longest_prefix() -> None:
    """What the engine asks before it decides: lookups are pure, and without a cache all are 0."""
    waiting = [words(9), words(1, 5), words(1, 2, 6), words(8)]

    def longest_prefix(kv: KVCacheManager) -> list[int]:
        hits = np.array([kv.lookup(prompt).tokens for prompt in waiting])
        order: list[int] = np.argsort(-hits, kind="stable").tolist()
        return order

    def served(kv: KVCacheManager, order: list[int]) -> int:
        """Prompt tokens found, one request after the other."""
        tokens = 0
        for i in order:
            grant = kv.allocate(Request(waiting[i]))
            kv.commit(grant.seq, len(waiting[i]))
            kv.release(grant.seq)
            tokens += grant.cached_tokens
        return tokens

    def filled(**cache: Any) -> KVCacheManager:
        kv = manager(3, 16, **cache)
        cached(kv, words(1, 2))
        return kv

    kv = filled()
    assert longest_prefix(kv) == [2, 1, 0, 3]
    assert evicted(kv) == 0
    assert served(kv, longest_prefix(kv)) > served(filled(), [0, 1, 2, 3])
    off = filled(prefix_caching=False)
    assert longest_prefix(off) == [0, 1, 2, 3], "first come, first served"
    with pytest.raises(PluginError, match="no eviction policy lpm"):
        under("lpm", 3)
