"""vLLM's CPU tier, into which an admission policy of kvframe lets chunks.

In ``kv_connector_extra_config``, with ``spec_name`` ``KvframeOffloadingSpec``: ``admission`` names
the policy, ``second-use`` or ``frequency:threshold=3``; all else is as for vLLM's own spec.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from vllm.v1.kv_offload.base import OffloadingManager
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from kvframe.flat_admission import FlatAdmission
from kvframe.integrations.peers import use_of
from kvframe_vllm.log import logger


class AdmittingManager(CPUOffloadingManager):  # type: ignore[misc]
    """vLLM's manager of the CPU tier; a chunk that is new is stored if the policy admits it.

    Args:
        admission: The policy.
        **given: As vLLM's own takes it.
    """

    def __init__(self, admission: FlatAdmission, **given: Any) -> None:
        super().__init__(**given)
        self.admission = admission

    def prepare_store(self, keys: Collection[bytes], req_context: Any) -> Any:
        return super().prepare_store(self._admitted([*keys], req_context), req_context)

    def _admitted(self, keys: list[bytes], req_context: Any) -> list[bytes]:
        """What is there already, and those of the others that the policy admits. After one that it
        drops, nothing of the same prefix is of use.
        """
        try:
            new = [key for key in keys if self._policy.get(key) is None]
            ends = (req_context.get_offload_key_position(key) or 1 for key in new)
            places = [(end - 1) // self.admission.block_size for end in ends]
            told = (req_context.kv_transfer_params or {}).get("kvframe")
            room = (self._get_num_free_chunks(), self._num_chunks)
            kept = set(self.admission.admitted(new, places, use=use_of(told), room=room))
        except Exception as error:
            logger.error("kvframe's admission: %s: %s", type(error).__name__, error)
            return keys
        return [key for key in keys if key in kept or self._policy.get(key) is not None]


class KvframeOffloadingSpec(CPUOffloadingSpec):  # type: ignore[misc]
    """vLLM's own spec with that manager. An admission policy that cannot be had fails the start, as
    any wrong value of the configuration does.
    """

    _manager: OffloadingManager | None

    def get_manager(self) -> OffloadingManager:
        if self._manager is None:
            text = self.extra_config.get("admission", "always")
            size = self.config.cache.tokens_per_hash * self.blocks_per_chunk
            self._manager = AdmittingManager(
                FlatAdmission.named(text, block_size=size),
                num_chunks=self.num_chunks,
                cache_policy=self.eviction_policy,
                cache_policy_module_path=self.cache_policy_module_path,
                enable_events=self.kv_events_config.enable_kv_cache_events,
                info=self.cpu_info,
            )
        return self._manager
