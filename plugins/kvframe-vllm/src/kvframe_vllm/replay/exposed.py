"""The numbers of shadows as ``/metrics`` of a server would have them."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kvframe.shadow import ShadowReport
from kvframe_vllm.shadow.stats import ShadowMetrics, ShadowStats

LABELS = {"model_name": "MODEL", "engine": "0"}
"""vLLM's own, of every metric."""


def exposed(vllm_config: Any, report: ShadowReport) -> str:
    """A line a number, of one engine whose shadows have counted so much since it started.

    Args:
        vllm_config: The engine's.
        report: What they have counted.
    """
    nothing = type(report)([type(one)(*one[:2]) for one in report.shadows])
    registry = CollectorRegistry()
    kinds = {
        kind: lambda kind=kind, **given: kind(registry=registry, **given)
        for kind in (Counter, Gauge, Histogram)
    }
    metrics = ShadowMetrics(vllm_config, kinds, [*LABELS], {0: [*LABELS.values()]})
    metrics.observe(ShadowStats.between(nothing, report).data)
    lines = generate_latest(registry).decode().splitlines()
    # What explains a metric, and when it began, is left out.
    return "\n".join(line for line in lines if not line.startswith("#") and "_created{" not in line)
