"""Run by SGLang's interpreter: its plain RadixCache under every kvframe policy.

A server builds another class, UnifiedRadixCache: nothing here tells how a policy fares there.
"""

from __future__ import annotations

import random
import sys
from array import array
from typing import Any

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey

from kvframe.integrations.sglang import install


class Slots:
    """What the cache frees its slots to: they are counted, and none may be freed twice."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.freed: list[int] = []

    def free_segment(self, value: Any, start_pos: int = 0) -> None:
        self.freed += value.tolist()

    free = free_segment


def work(policy: str, steps: int = 400, locks: float = 0.1) -> list[int]:
    """Freed slots, in order, of a random load with shared prefixes and locked paths."""
    rng = random.Random(5)
    slots = Slots()
    cache = RadixCache(
        CacheInitParams(
            disable=False,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=slots,
            page_size=1,
            eviction_policy=policy,
        )
    )
    count = 0
    locked: list[Any] = []
    for _ in range(steps):
        tokens = [rng.randrange(4) for _ in range(rng.randint(2, 8))]
        key = RadixKey(array("q", tokens))
        found = cache.match_prefix(MatchPrefixParams(key=key))
        have = found.device_prefix_len
        fresh = torch.arange(count, count + len(tokens) - have)
        count += len(tokens) - have
        held = cache.path_device_indices(found.last_device_node)
        value = torch.cat([torch.as_tensor(held, dtype=torch.int64), fresh])
        cache.insert(InsertParams(key=key, value=value))
        if rng.random() < locks:
            node = cache.match_prefix(MatchPrefixParams(key=key)).last_device_node
            cache.inc_lock_ref(node)
            locked.append((node, set(cache.path_device_indices(node).tolist())))
        if len(locked) > 3:
            cache.dec_lock_ref(locked.pop(0)[0])
        if cache.evictable_size() > 60:
            before = len(slots.freed)
            cache.evict(EvictParams(num_tokens=20))
            gone = set(slots.freed[before:])
            assert len(gone) >= 20
            assert all(not gone & path for _, path in locked), "a locked node died"
    assert len(slots.freed) == len(set(slots.freed)), "a slot was freed twice"
    strategy = cache.eviction_strategy
    if hasattr(strategy, "tier"):
        strategy.tier.check_integrity()
        assert strategy.tier.failures == 0
    return slots.freed


def main() -> None:
    """Every policy named, and whether it freed what lru does.

    Without locks lru, fifo and mru free the same slots as SGLang's own.
    """
    install()
    install()
    for own in ("lru", "fifo", "mru"):
        assert work(f"kvframe:{own}", locks=0) == work(own, locks=0), own
    lru = work("kvframe:lru")
    for policy in sys.argv[1:]:
        freed = work(f"kvframe:{policy}")
        assert freed, policy
        print(f"{policy}: {'as lru' if freed == lru else 'ran'}")


if __name__ == "__main__":
    main()
