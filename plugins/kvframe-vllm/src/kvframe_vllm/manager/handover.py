"""Everything back to vLLM's own manager, in mid-run: tables, owners, and what requests have cached.

Blocks that no request has stay in vLLM's free queue. Their content is as it was, so a hit that was
found just before is still one; it is not found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id

from kvframe_vllm.log import logger

if TYPE_CHECKING:
    from kvframe_vllm.manager.requests import Held
    from kvframe_vllm.manager.whole import WholeManager


def hand_over(manager: WholeManager, error: Exception) -> KVCacheManager:
    """Returns vLLM's own manager: the scheduler's from now on, with all that requests have."""
    if manager.scheduler.kv_cache_manager is manager:
        told = manager.policy, type(error).__name__, error
        logger.error(
            "kvframe's manager (%s) failed, and vLLM's goes on in its place: %s: %s", *told
        )
        manager.scheduler.kv_cache_manager = manager.stock
        manager.stock.prefix_cache_stats = manager.prefix_cache_stats
        manager.lost_events()
        for at, group in enumerate(manager.stock.coordinator.single_type_managers):
            for name, held in manager.held.items():
                group.req_to_blocks[name] = _own(manager.stock.block_pool, held, at)
                group.num_cached_block[name] = held.cached
            for held in manager.block_pool.deferred.values():
                _own(manager.stock.block_pool, held, at)
    return manager.stock


def _own(pool: Any, held: Held, group: int) -> list[Any]:
    """The blocks of a request, with one owner more each, found by the keys that they have."""
    table = [pool.blocks[block] for block in held.tables[group]]
    pool.touch(table)
    for at, block in enumerate(table[: held.cached]):
        key = make_block_hash_with_group_id(held.request.block_hashes[at], group)
        if block.block_hash is None and not block.is_null:
            tokens = (at + 1) * pool.hash_block_size
            pool._insert_block_hash(key, block, num_tokens=tokens)
    return table
