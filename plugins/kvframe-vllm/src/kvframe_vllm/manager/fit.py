"""Which models and settings kvframe's manager serves."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.kv_cache_coordinator import UnitaryKVCacheCoordinator
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager

from kvframe_vllm import releases
from kvframe_vllm.passive import PassiveConnector


def unfit(scheduler: Any) -> str | None:
    """Why the manager of this scheduler cannot be kvframe's; None if it can."""
    if reason := releases.unknown_to_manager():
        return reason
    manager = scheduler.kv_cache_manager
    if type(manager) is not KVCacheManager:
        return f"the manager is a {type(manager).__qualname__}, not vLLM's"
    if not manager.enable_caching:
        return "prefix caching is off"
    return _unfit_model(manager) or _unfit_settings(scheduler, manager)


def _unfit_model(manager: Any) -> str | None:
    """Anything but one group of full attention, block by block."""
    coordinator = manager.coordinator
    kinds = [type(one).__name__ for one in coordinator.single_type_managers]
    if type(coordinator) is not UnitaryKVCacheCoordinator or kinds != [
        FullAttentionManager.__name__
    ]:
        return f"it serves one group of full attention; here: {', '.join(kinds)}"
    [group] = coordinator.single_type_managers
    if group.block_size != manager.block_pool.hash_block_size:
        return f"blocks of {group.block_size} tokens are hashed by another number"
    if coordinator.drop_eagle_group_ids or coordinator.num_reprefillable_tokens:
        return "the drafter computes the last block of a hit again"
    if group.records_new_block_ids:
        return "new blocks are zeroed"
    return None


def _unfit_settings(scheduler: Any, manager: Any) -> str | None:
    if manager.block_pool.num_hash_lookahead_tokens:
        return "hashes look ahead"
    if manager.metrics_collector is not None:
        return "the lives of blocks are sampled (kv_cache_metrics)"
    if scheduler.aux_output_connector is not None:
        return "it serves no auxiliary outputs"
    connector = scheduler.connector
    if connector is not None and not isinstance(connector, PassiveConnector):
        return f"it serves no connector that moves blocks; here: {type(connector).__name__}"
    return None
