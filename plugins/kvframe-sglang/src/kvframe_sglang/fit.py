"""Which caches kvframe's tree serves: attention over the whole prefix, on the device alone."""

from __future__ import annotations

from typing import Any

from sglang.srt.mem_cache.allocator.page_interleave import page_interleave_shard_size
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType


def unfit(params: Any) -> str | None:
    """Why kvframe's tree cannot serve the cache of these ``CacheInitParams``; None if it can."""
    others = set(params.tree_components or ()) - {ComponentType.FULL}
    if others or not params.tree_components:
        kinds = ", ".join(sorted(str(kind) for kind in others)) or "none"
        return f"the model caches more than full attention's KV ({kinds})"
    if params.component_registry_override:
        return "the model's components are not SGLang's own"
    if params.enable_session_radix_cache:
        return "--enable-session-radix-cache needs SGLang's Python tree"
    if page_interleave_shard_size(params.token_to_kv_pool_allocator) > 1:
        return "pages are sharded over ranks"
    return _tiers()


def _tiers() -> str | None:
    """What the server's arguments say of tiers below the device, where there are arguments."""
    from sglang.srt.runtime_context import get_disagg, get_memory

    try:
        memory, disagg = get_memory(), get_disagg()
        asked = {
            "--enable-hierarchical-cache": memory.enable_hierarchical_cache,
            "--enable-lmcache": memory.enable_lmcache,
            "--enable-unified-cache-external-linker": memory.enable_unified_cache_external_linker,
            "a host pool for retracted requests": (
                disagg.disaggregation_decode_retraction_backup == "host_pool"
            ),
        }
    except Exception:
        # No server: a program that builds a cache by itself.
        return None
    for name, is_asked in asked.items():
        if is_asked:
            return f"{name} keeps KV below the device"
    return None
