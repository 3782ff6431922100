"""A manager's counts as Prometheus metrics.

| module | purpose |
| --- | --- |
| `families` | every metric: its name, kind, labels and help |
| `samples` | what a manager, its tiers and its publisher count, as samples of these |
| `collector` | them, for the official client, which also serves them over HTTP |
| `otel` | the same as instruments of OpenTelemetry |
| `view` | a scrape as a page of text, for ``kvframe top`` |

``pip install 'kvframe[metrics]'`` brings the client; ``kvframe[top]`` brings rich, too, and
``kvframe[otel]`` OpenTelemetry's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvframe.later import later

if TYPE_CHECKING:
    from kvframe.metrics.collector import Collector, Server, serve

__all__ = ["Collector", "Server", "serve"]

if not TYPE_CHECKING:
    __getattr__ = later(__name__, dict.fromkeys(__all__, "collector"))
