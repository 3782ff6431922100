"""Run by vLLM's interpreter: its own CPU offloading manager under every kvframe policy."""

from __future__ import annotations

import random
import sys

from vllm.v1.kv_offload.base import LookupResult, OffloadKey, ReqContext, make_offload_key
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager


def work(policy: str, chunks: int = 32, requests: int = 200) -> list[OffloadKey]:
    """Requests with shared prefixes and loads in flight; chunks evicted, in order."""
    rng = random.Random(3)
    manager = CPUOffloadingManager(
        num_chunks=chunks,
        cache_policy=f"kvframe:{policy}",
        cache_policy_module_path="kvframe.integrations.vllm",
    )
    loading: list[tuple[list[OffloadKey], ReqContext]] = []
    evicted: list[OffloadKey] = []
    for number in range(requests):
        # A client may say anything: one in five says no number.
        told = {"session": 7 if number % 5 else "seven"}
        context = ReqContext(req_id=str(number), kv_transfer_params={"kvframe": told})
        family, length = rng.randrange(12), rng.randint(1, 8)
        keys = [make_offload_key(f"{family}/{i}".encode(), 0) for i in range(length)]
        for place, key in enumerate(keys):
            context.set_offload_key_position(key, 16 * (place + 1))
        manager.on_new_request(context)
        ready = [key for key in keys if manager.lookup(key, context) is LookupResult.HIT]
        if ready:
            manager.prepare_load(ready, context)
            loading.append((ready, context))
        stored = manager.prepare_store(keys, context)
        if stored is not None:
            evicted += stored.evicted_keys
            busy = {key for held, _ in loading for key in held}
            assert not busy & set(stored.evicted_keys), "a chunk being read was evicted"
            assert not set(keys) & set(stored.evicted_keys), "a protected chunk was evicted"
            manager.complete_store(stored.keys_to_store, context, success=rng.random() < 0.9)
        if len(loading) > 2:
            held, reader = loading.pop(0)
            manager.complete_load(held, reader)
            manager.on_request_finished(reader)
        elif not ready:
            manager.on_request_finished(context)
        manager._policy.tier.check_integrity()
    assert manager._policy.tier.failures == 0
    manager.reset_cache()
    assert len(manager._policy.tier) == 0
    return evicted


def main() -> None:
    """Every policy named, and whether it evicted what lru does."""
    lru = work("lru")
    for policy in sys.argv[1:]:
        evicted = work(policy)
        assert evicted, policy
        print(f"{policy}: {'as lru' if evicted == lru else 'ran'}")


if __name__ == "__main__":
    main()
