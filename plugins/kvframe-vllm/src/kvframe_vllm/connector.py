"""A KV connector that moves nothing: vLLM hands it the live pool, and it puts a policy in.

In ``--kv-transfer-config``::

    {"kv_connector": "KvframeConnector", "kv_connector_module_path": "kvframe_vllm.connector",
     "kv_role": "kv_producer", "kv_connector_extra_config": {"policy": "lfu"}}

With any other role vLLM frees blocks late under asynchronous scheduling, which costs hits.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata, KVConnectorRole

from kvframe_vllm import choice
from kvframe_vllm.install import install
from kvframe_vllm.log import logger
from kvframe_vllm.passive import PassiveConnector
from kvframe_vllm.queue import PolicyQueue
from kvframe_vllm.stats import PolicyMetrics, PolicyStats


class KvframeConnector(PassiveConnector):
    """Rules the GPU pool by the policy of its extra configuration, and counts what comes of it."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._pool: Any = None
        self._hits: dict[str, int] = {}
        self._hit_tokens = 0
        self._told = {"evictions": 0, "failures": 0}

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:
        extra = self._kv_transfer_config.kv_connector_extra_config or {}
        where = "kv_connector_extra_config['policy']"
        self._pool = gpu_block_pool
        try:
            text = choice.text_of(extra.get("policy"), where) or choice.asked(self._vllm_config)
        except ValueError as error:
            logger.warning("kvframe does not rule the GPU prefix cache: %s", error)
        else:
            install(gpu_block_pool, text)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int, bool]:
        # Asked again while the request waits: what counts is the last answer before its blocks.
        self._hits[request.request_id] = num_computed_tokens
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        self._hit_tokens += self._hits.pop(request.request_id, 0)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        self._hits.pop(request.request_id, None)
        return False, None

    def get_kv_connector_stats(self) -> PolicyStats | None:
        """What was counted since the last call; None on a worker's side."""
        if self._pool is None:
            return None
        hit_tokens, self._hit_tokens = self._hit_tokens, 0
        queue, policy = self._pool.free_block_queue, "stock"
        counted = dict(self._told)
        if isinstance(queue, PolicyQueue):
            policy = queue.core.policy
            counted = {"evictions": queue.core.evictions, "failures": queue.core.failures}
        # A reset begins a queue anew, and its counts from 0.
        since = {
            name: count - (self._told[name] if count >= self._told[name] else 0)
            for name, count in counted.items()
        }
        self._told = counted
        return PolicyStats(data={"policy": policy, "hit_tokens": hit_tokens, **since})

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> PolicyStats:
        return PolicyStats(data=data) if data else PolicyStats()

    @classmethod
    def build_prom_metrics(cls, *given: Any) -> PolicyMetrics:
        return PolicyMetrics(*given)
