"""What shadows would have hit, in vLLM's log (``KV Transfer metrics``) and in its ``/metrics``."""

from __future__ import annotations

from typing import Any

from prometheus_client import Counter, Gauge
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from kvframe.shadow import ShadowReport

COUNTS = {
    "query_tokens": "Prompt tokens of requests that a shadow has served.",
    "hit_tokens": "Of these, tokens that its pool had.",
    "engine_hit_tokens": "Of these, tokens that the real pool had.",
}
"""What is counted of each shadow, and how /metrics describes it."""


class ShadowStats(KVConnectorStats):  # type: ignore[misc]
    """The counts of an interval: ``shadows`` has ``[policy, blocks, *COUNTS]`` a shadow.

    ``rates`` are the hit rates of each since the start, less what a sample is off.
    """

    @classmethod
    def between(cls, before: ShadowReport, now: ShadowReport) -> ShadowStats:
        """What was counted between two reports of one set."""
        rows = [
            [
                *(new.policy, new.capacity),
                new.query_tokens - old.query_tokens,
                new.hit_tokens - old.hit_tokens,
                new.found_tokens - old.found_tokens,
            ]
            for old, new in zip(before.shadows, now.shadows, strict=True)
        ]
        data = {
            "shadows": rows,
            "rates": [now.hit_rate(shadow) for shadow in now.shadows],
            "stride": now.stride,
            "dropped": now.dropped - before.dropped,
            "difference": now.difference,
            "trusted": now.doubt is None,
        }
        return cls(data=data)

    def reset(self) -> None:
        self.data: dict[str, Any] = {}

    def aggregate(self, other: KVConnectorStats) -> ShadowStats:
        if not self.data or not other.data:
            self.data = self.data or other.data
            return self
        mine, theirs = self.data["shadows"], other.data["shadows"]
        rows = [
            [*old[:2], *map(sum, zip(old[2:], new[2:], strict=True))]
            for old, new in zip(mine, theirs, strict=True)
        ]
        dropped = self.data["dropped"] + other.data["dropped"]
        self.data = {**other.data, "shadows": rows, "dropped": dropped}
        return self

    def reduce(self) -> dict[str, Any]:
        """Hit rates of the interval, in per cent."""
        said: dict[str, Any] = {}
        for policy, blocks, queries, hits, found in self.data.get("shadows", ()):
            if queries:
                said["engine %"] = round(100 * found / queries, 2)
                said[f"shadow {policy} {blocks} %"] = round(100 * hits / queries, 2)
        if (stride := self.data.get("stride", 1)) > 1:
            said = {"shadows follow": f"1 block in {stride}", **said}
        return said if self.data.get("trusted", True) else {"shadows": "not trusted", **said}

    def is_empty(self) -> bool:
        return not self.data


class ShadowMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """``vllm:kvframe_shadow_...``, by engine, and by the policy and blocks of each shadow."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: Any,
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        counter, gauge = metric_types[Counter], metric_types[Gauge]
        self._counters = {
            name: counter(
                name=f"vllm:kvframe_shadow_{name}",
                documentation=text,
                labelnames=[*labelnames, "policy", "blocks"],
            )
            for name, text in COUNTS.items()
        }
        self._dropped = counter(
            name="vllm:kvframe_shadow_dropped_requests",
            documentation="Requests that the shadows lost because they were too far behind.",
            labelnames=labelnames,
        )
        self._rate = gauge(
            name="vllm:kvframe_shadow_hit_ratio",
            documentation="Hit rate that the engine would have had so far with this policy and "
            "size: the shadow's, less what a sample and the shadow of what really runs are off.",
            labelnames=[*labelnames, "policy", "blocks"],
        )
        self._stride = gauge(
            name="vllm:kvframe_shadow_stride",
            documentation="Blocks that one followed block stands for: above 1, the shadows' "
            "tokens are those of a sample, scaled.",
            labelnames=labelnames,
        )
        self._difference = gauge(
            name="vllm:kvframe_shadow_difference_ratio",
            documentation="Hit rate of the shadow of what really runs, less the real one.",
            labelnames=labelnames,
        )
        self._trusted = gauge(
            name="vllm:kvframe_shadow_trusted",
            documentation="1 while the shadows' numbers can be trusted, else 0.",
            labelnames=labelnames,
        )

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        labels = self.per_engine_labelvalues[engine_idx]
        shadows, rates = (transfer_stats_data.get(key, ()) for key in ("shadows", "rates"))
        for (policy, blocks, *counts), rate in zip(shadows, rates, strict=True):
            for counter, count in zip(self._counters.values(), counts, strict=True):
                counter.labels(*labels, policy, blocks).inc(count)
            self._rate.labels(*labels, policy, blocks).set(rate)
        self._stride.labels(*labels).set(transfer_stats_data.get("stride", 1))
        self._dropped.labels(*labels).inc(transfer_stats_data.get("dropped", 0))
        self._difference.labels(*labels).set(transfer_stats_data.get("difference", 0))
        self._trusted.labels(*labels).set(float(transfer_stats_data.get("trusted", True)))
