"""The releases of transformers whose internals are known, and a check that they are as then."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version as version_of

RELEASES = ("5.16", "5.17")
"""Releases under which the tests pass. From 5.18 on, the engine keeps blocks in sectors of its own
pool (``cache_allocators``), where nothing of a block manager is left to replace."""

PLACE = "transformers.generation.continuous_batching"
SIGNATURES = {
    "cache.PagedAttentionCache.__init__": (
        "config",
        "continuous_batching_config",
        "device",
        "distributed_helper",
        "tp_plan",
        "dtype",
    ),
    "cache.PagedAttentionCache.allocate_blocks": ("n_blocks", "request_id", "allocated_blocks"),
    "cache.PagedAttentionCache.search_prefix_match": ("request_id", "prompt_ids"),
    "cache.PagedAttentionCache.mark_shareable_blocks_as_complete": ("state", "num_complete_blocks"),
    "cache.PagedAttentionCache.compute_max_num_forks": ("source_request_id",),
    "cache.PagedAttentionCache.update": (
        "key_states",
        "value_states",
        "layer_idx",
        "read_index",
        "write_index",
    ),
    "cache_manager.BlockManager.get_free_blocks": (
        "n_blocks",
        "last_block_id",
        "shareable",
        "group_id",
    ),
    "cache_manager.BlockManager.free_blocks": ("blocks", "shareable"),
    "cache_manager.FullAttentionCacheAllocator.allocate_blocks": (
        "n_blocks",
        "request_id",
        "block_manager",
    ),
    "cache_manager.FullAttentionCacheAllocator.fork_blocks": (
        "parent_request_id",
        "children_request_ids",
        "block_manager",
    ),
    "offloading_manager.OffloadingManager.__init__": (
        "cache",
        "scheduler",
        "cpu_offload_space_gib",
        "safety_threshold",
        "compute_stream",
        "distributed_helper",
    ),
    "offloading_manager.OffloadingManager._offload_to_cpu": ("victims",),
    "offloading_manager.OffloadingManager.restore_scheduled_requests": ("requests_in_batch",),
    "offloading_manager.OffloadingManager.free_request_cpu_cache": ("state", "keep_unsorted"),
    "scheduler.Scheduler.add_waiting_request": ("state",),
    "scheduler.Scheduler.schedule_batch": ("token_budget", "cache_budget"),
    "continuous_api.ContinuousBatchProcessor.prepare_next_batch": (),
    "continuous_api.ContinuousBatchProcessor.update_batch": (),
    "continuous_api.ContinuousBatchProcessor._generation_step": ("model",),
    "continuous_api.ContinuousBatchProcessor._handle_request_error": ("error", "state"),
}
"""What is called or replaced: parameters behind ``self``."""


def check_release() -> None:
    """Check that the installed transformers is of a known release, and as it was.

    Raises:
        ImportError: It is not.
    """
    version = version_of("transformers")
    if not any(version.startswith(f"{release}.") for release in RELEASES):
        serves = " or ".join(RELEASES)
        raise ImportError(
            f"transformers {version} is installed: kvframe's blocks serve {serves} only"
        )
    for name, known in SIGNATURES.items():
        found = _parameters(name)
        if found != known:
            raise ImportError(
                f"transformers {version}: {PLACE}.{name} takes {found}, and kvframe knows {known}"
            )


def _parameters(name: str) -> tuple[str, ...] | None:
    module, *path = name.split(".")
    found: object = import_module(f"{PLACE}.{module}")
    for part in path:
        found = getattr(found, part, None)
    if not callable(found):
        return None
    return tuple(inspect.signature(found).parameters)[1:]
