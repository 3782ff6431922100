"""What a tree core answers of tiers and components that it has not.

SGLang's ``UnifiedRadixCache`` asks most of this only where a host tier, a linker, a window or a
mamba state is configured: `kvframe_sglang.fit` leaves such caches to SGLang's own tree. What it
asks all the same has the answer of a tree that holds nothing there; what would have to do something
says that it cannot (`UnservedError`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from sglang.srt.mem_cache.base_prefix_cache import DecLockRefResult, IncLockRefResult
from sglang.srt.mem_cache.unified_cache.unified_tree_core_interface import (
    DecSwaLockOnlyResult,
    DriveHostEvictionResult,
    DropSubtreeNoHostResult,
    UnifiedTreeCoreInterface,
)


class UnservedError(RuntimeError):
    """SGLang asked for a tier or a component that kvframe's tree does not have."""


def _unserved(what: str) -> NoReturn:
    limit = "kvframe's tree has no tier below the device, and full attention alone"
    raise UnservedError(f"{what}: {limit}")


class Hostless(UnifiedTreeCoreInterface):  # type: ignore[misc]
    """The part of a tree core that concerns other tiers and components."""

    enable_hicache = False
    enable_storage = False
    enable_external_cache_linker = False
    write_through_threshold = 256
    is_write_back = False
    has_swa_host_pool = False
    is_host_memory_buffer_only = False

    # --- nothing is there -------------------------------------------------------------------------

    def is_write_through_compatible(self) -> bool:
        return True

    def is_backuped(self, node_id: int) -> bool:
        return False

    def get_last_hash_value(self, node_id: int) -> str | None:
        return None

    def get_prefix_hash_values(self, node_id: int) -> list[str]:
        return []

    def get_hash_values(self, node_id: int) -> list[str]:
        return []

    def snapshot_buffer_backup(self, node_id: int, pass_prefix_keys: bool) -> None:
        return None

    def validate_buffer_backup(self, node_id: int, expected_key_length: int) -> None:
        return None

    def backfill_missing_hash_values(self) -> int:
        return 0

    def dec_swa_lock_only(self, node_id: int, params: Any) -> Any:
        return DecSwaLockOnlyResult()

    def dec_window_lock_only(self, node_id: int, component_type: Any, params: Any) -> Any:
        return DecSwaLockOnlyResult()

    def drop_subtree_no_host(self, node_id: int) -> Any:
        return DropSubtreeNoHostResult(is_dropped=False)

    def inc_host_lock_ref(self, node_id: int) -> Any:
        return IncLockRefResult(node_id=node_id)

    def dec_host_lock_ref(self, node_id: int, params: Any) -> Any:
        return DecLockRefResult()

    def drive_host_eviction(self, component_type: Any, num_tokens: int) -> Any:
        return DriveHostEvictionResult()

    def evict_excess_path_states(
        self, tail_node_id: int, device_frees: Any, host_frees: Any, cache_actions: Any
    ) -> None:
        return None

    def swa_evictable_size(self) -> int:
        return 0

    def mamba_evictable_size(self) -> int:
        return 0

    def swa_protected_size(self) -> int:
        return 0

    def mamba_protected_size(self) -> int:
        return 0

    def all_mamba_values_flatten(self) -> Any:
        return torch.tensor([], dtype=torch.int64, device=self.device)

    def build_storage_backup_spec(self, node_id: int, pass_prefix_keys: bool) -> None:
        return None

    def build_hicache_transfers(
        self, component_type: Any, node_id: int, phase: Any, **given: Any
    ) -> None:
        return None

    def finish_load_back(self, anchor_node_id: int) -> None:
        return None

    def build_external_linker_offload_transfers(self, node_id: int) -> None:
        return None

    def mark_external_cache_stored_path(self, from_node_id: int, until_node_id: int) -> None:
        return None

    def mark_external_linker_offload_pending(self, node_id: int) -> None:
        return None

    def finish_external_linker_offload(
        self, node_ids: Sequence[int], ack_id: int, success: bool
    ) -> None:
        return None

    def mark_write_through_pending(self, node_ids: list[int], ack_id: int) -> list[int]:
        return node_ids

    def finish_write_through(self, node_ids: list[int], ack_id: int) -> None:
        return None

    def swa_tombstone_ranges(
        self, key: Any, start: int, end: int, component_type: Any = None
    ) -> list[tuple[int, int]]:
        return []

    def component_has_host_value_only(self, node_id: int, component_type: Any) -> bool:
        return False

    # --- it would have to be there ----------------------------------------------------------------

    def set_hicache_enabled(self) -> None:
        _unserved("a host tier")

    def set_host_memory_buffer_only(self) -> None:
        _unserved("a host buffer")

    def finish_mamba_state_eviction(self, node_id: int) -> Any:
        _unserved("mamba states")

    def finish_swa_state_eviction(self, node_id: int) -> Any:
        _unserved("windows")

    def demote(self, node_id: int) -> Any:
        _unserved("a backup")

    def insert_host(self, node_id: int, key: Any, host_value: Any, hash_value: list[str]) -> Any:
        _unserved("KV on the host")

    def build_backup_spec(self, node_id: int) -> Any:
        _unserved("a backup")

    def build_load_back_spec(self, node_id: int, req: Any = None) -> Any:
        _unserved("KV on the host")

    def commit_hicache_transfers(
        self, node_id: int, phase: Any, comp_xfers: Any, **given: Any
    ) -> None:
        _unserved("transfers")

    def commit_backup(self, node_id: int, host_indices: Any, comp_xfers: Any) -> None:
        _unserved("a backup")

    def commit_load_back(
        self, node_id: int, device_indices: Any, kv_xfer: Any, comp_xfers: Any
    ) -> Any:
        _unserved("KV on the host")

    def attach_swa_window(
        self,
        key: Any,
        window_start: int,
        window_end: int,
        swa_values: Any,
        component_type: Any = None,
    ) -> Any:
        _unserved("windows")

    def set_component_device_value(self, node_id: int, component_type: Any, value: Any) -> None:
        _unserved(f"{component_type} values")

    def adjust_component_size(self, node_id: int, component_type: Any, delta: int) -> None:
        _unserved("values that are not backed one to one")
