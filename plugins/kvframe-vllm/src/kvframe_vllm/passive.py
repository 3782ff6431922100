"""A KV connector that moves no bytes and delivers nothing: it only sees what the scheduler does."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    SupportsHMA,
)

from kvframe_vllm.choice import ROLE
from kvframe_vllm.log import logger


class PassiveConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """Warns of a role that costs hits; does nothing on a worker's side."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        found = self._kv_transfer_config.kv_role
        if role is KVConnectorRole.SCHEDULER and found != ROLE:
            logger.warning("kv_role = %r: %r loses fewer hits, and nothing is loaded", found, ROLE)

    @property
    def requires_kv_delivery(self) -> bool:
        return False

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, None]:
        self.request_finished(request, [])
        return False, None

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        pass

    def wait_for_layer_load(self, layer_name: str) -> None:
        pass

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        pass

    def wait_for_save(self) -> None:
        pass
