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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvframe.metrics.collector import Collector, Server, serve

__all__ = ["Collector", "Server", "serve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kvframe.metrics.collector"), name)
