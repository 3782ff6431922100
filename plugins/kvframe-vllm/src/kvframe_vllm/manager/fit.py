"""Which models and settings kvframe's manager serves."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator, UnitaryKVCacheCoordinator
from vllm.v1.core.kv_cache_manager import KVCacheManager

from kvframe_vllm import releases
from kvframe_vllm.manager.windows import SERVED
from kvframe_vllm.passive import PassiveConnector


def unfit(scheduler: Any) -> str | None:
    """Why the manager of this scheduler cannot be kvframe's; None if it can."""
    if reason := releases.MANAGER.unknown:
        return reason
    manager = scheduler.kv_cache_manager
    if type(manager) is not KVCacheManager:
        return f"the manager is a {type(manager).__qualname__}, not vLLM's"
    if not manager.enable_caching:
        return "prefix caching is off"
    return _unfit_model(manager) or _unfit_settings(scheduler, manager)


def _unfit_model(manager: Any) -> str | None:
    """Anything but full attention and sliding windows, block by block."""
    coordinator, groups = manager.coordinator, manager.coordinator.single_type_managers
    kinds = [type(one).__name__ for one in groups if type(one) not in SERVED]
    if kinds:
        return f"it serves full attention and sliding windows; here: {', '.join(kinds)}"
    if type(coordinator) not in (UnitaryKVCacheCoordinator, HybridKVCacheCoordinator):
        return f"the coordinator is a {type(coordinator).__name__}"
    size = manager.block_pool.hash_block_size
    sizes = {coordinator.scheduler_block_size, *(group.block_size for group in groups)}
    if sizes != {size}:
        return f"blocks of {sorted(sizes)} tokens are hashed by {size}"
    # 0.33 tells groups that a drafter shares from those that lose a block for it.
    drops = getattr(coordinator, "drop_eagle_group_ids", coordinator.eagle_group_ids)
    if drops or coordinator.num_reprefillable_tokens:
        return "the drafter computes the last block of a hit again"
    if coordinator.retention_interval is not None:
        return "blocks of windows are cached by an interval (prefix_cache_retention_interval)"
    if any(group.records_new_block_ids for group in groups):
        return "new blocks are zeroed"
    if any(getattr(group, "extra_retained_tokens", 0) for group in groups):
        return "windows keep more than they attend to"
    if not all(group.kv_cache_spec.prefix_cacheable for group in groups):
        return "a group is not cached"
    return None


def _unfit_settings(scheduler: Any, manager: Any) -> str | None:
    if getattr(manager.block_pool, "num_hash_lookahead_tokens", 0):
        return "hashes look ahead"
    if manager.metrics_collector is not None:
        return "the lives of blocks are sampled (kv_cache_metrics)"
    if scheduler.aux_output_connector is not None:
        return "it serves no auxiliary outputs"
    connector = scheduler.connector
    if connector is not None and not isinstance(connector, PassiveConnector):
        return f"it serves no connector that moves blocks; here: {type(connector).__name__}"
    return None
