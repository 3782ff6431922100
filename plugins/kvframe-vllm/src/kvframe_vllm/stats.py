"""What a policy did, in vLLM's log (``KV Transfer metrics``) and in its ``/metrics``."""

from __future__ import annotations

from typing import Any

from prometheus_client import Counter
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

COUNTS = {
    "hit_tokens": "Prompt tokens that the GPU prefix cache had.",
    "evictions": "Cached GPU blocks that were evicted.",
    "failures": "Decisions that the built-in order took because the policy failed.",
}
"""What is counted, and how /metrics describes it."""


class PolicyStats(KVConnectorStats):  # type: ignore[misc]
    """The counts of an interval, and the policy that ruled at its end."""

    def reset(self) -> None:
        self.data: dict[str, Any] = {}

    def aggregate(self, other: KVConnectorStats) -> PolicyStats:
        sums = {name: self.data.get(name, 0) + other.data.get(name, 0) for name in COUNTS}
        self.data = {**self.data, **other.data, **sums}
        return self

    def reduce(self) -> dict[str, Any]:
        named = {"kvframe policy": self.data.get("policy", "stock")}
        return named | {name.replace("_", " "): self.data.get(name, 0) for name in COUNTS}

    def is_empty(self) -> bool:
        return not any(self.data.get(name) for name in COUNTS)


class PolicyMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """A counter ``vllm:kvframe_...`` for each, by engine and policy."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: Any,
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        counter = metric_types[Counter]
        self._counters = {
            name: counter(
                name=f"vllm:kvframe_{name}", documentation=text, labelnames=[*labelnames, "policy"]
            )
            for name, text in COUNTS.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        labels = [*self.per_engine_labelvalues[engine_idx], transfer_stats_data["policy"]]
        for name, counter in self._counters.items():
            counter.labels(*labels).inc(transfer_stats_data.get(name, 0))
