"""Run by LMCache's interpreter: its table of policies, its L1 listener, under kvframe policies."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.eviction import L1EvictionPolicy
from lmcache.v1.storage_backend.cache_policy import get_cache_policy

from kvframe.flat import resolve
from kvframe.integrations.lmcache import KvframeEvictionPolicy, install


def backend(name: str) -> list[str]:
    """The calls of a storage backend; a pinned chunk is never evicted, what stays comes back."""
    policy = get_cache_policy(f"kvframe:{name}")
    cache = policy.init_mutable_mapping()
    for i in range(10):
        cache[f"k{i}"] = SimpleNamespace(can_evict=i != 0)
        policy.update_on_put(f"k{i}")
    policy.update_on_hit("k1", cache)
    named = policy.get_evict_candidates(cache, 3)
    assert len(set(named)) == 3
    assert "k0" not in named
    for key in named[:2]:  # the third is not evicted after all
        cache.pop(key)
        policy.update_on_force_evict(key)
    rest = policy.get_evict_candidates(cache, 20)
    assert sorted([*rest, "k0"]) == sorted(cache)
    policy.tier.check_integrity()
    assert policy.tier.failures == 0
    return [*named, *rest]


def server(name: str) -> list[ObjectKey]:
    """The MP server's events through its own L1 bridge."""
    policy = KvframeEvictionPolicy(resolve(name))
    bridge = L1EvictionPolicy(policy)
    keys = [ObjectKey(chunk_hash=bytes([i] * 8), model_name="m", kv_rank=0) for i in range(10)]
    policy.on_keys_created(keys)
    policy.on_keys_touched(keys[:2])
    (action,) = policy.get_eviction_actions(0.3, lambda key: key != keys[9])
    assert len(action.keys) == 3
    assert keys[9] not in action.keys
    assert bridge is not None
    assert len(policy.tier) == 10  # until it is confirmed
    policy.on_keys_removed(action.keys)
    assert len(policy.tier) == 7
    policy.tier.check_integrity()
    assert policy.tier.failures == 0
    return list(action.keys)


def main() -> None:
    """Every policy named, and whether it evicted what lru does."""
    install()
    install()
    lru = backend("lru"), server("lru")
    for name in sys.argv[1:]:
        same = (backend(name), server(name)) == lru
        print(f"{name}: {'as lru' if same else 'ran'}")


if __name__ == "__main__":
    main()
