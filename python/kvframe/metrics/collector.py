"""The samples for the official Prometheus client, and a page of them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.manager import KVCacheManager
from kvframe.metrics.families import FAMILIES
from kvframe.metrics.samples import BatchCounts, Shadows, TierStats, by_family, samples

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector as _Collector
except ImportError as error:
    raise ImportError(
        "kvframe.metrics needs prometheus_client: pip install 'kvframe[metrics]'", name=error.name
    ) from error

PORT = 9470
"""Where `serve` listens unless told otherwise."""


class Collector(_Collector):
    """A manager's metrics; register it with a registry of ``prometheus_client``.

    It reads the manager when it is scraped, and costs nothing meanwhile.

    Args:
        kv: The manager.
        tiers: Its tiers, if it has any.
        publisher: Its publisher of KV events, if it has one.
        shadows: Its shadows, if it has any.
        engine: The label ``engine`` of every sample: tells the managers of one process apart.

    Raises:
        UsageError: ``kv`` is no manager.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        *,
        tiers: TierStats | None = None,
        publisher: BatchCounts | None = None,
        shadows: Shadows | None = None,
        engine: str = "0",
    ) -> None:
        if not isinstance(kv, KVCacheManager):
            raise UsageError(f"kv = {shown(kv)}: must be a KVCacheManager")
        self._sources = kv, tiers, publisher, shadows
        self._engine = engine

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every family that has samples now."""
        found = by_family(samples(*self._sources))
        for family in FAMILIES:
            if family.name not in found:
                continue
            make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = make(family.name, family.help, labels=["engine", *family.labels])
            for sample in found[family.name]:
                metric.add_metric([self._engine, *sample.labels], sample.value)
            yield metric

    def describe(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """An empty list, so that registering this collector does not read the manager."""
        return []


class Server:
    """A page of metrics over HTTP, until it is closed.

    Attributes:
        url: Where it is.
    """

    def __init__(self, collector: Collector, port: int, address: str) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except (OSError, OverflowError) as error:
            raise UsageError(f"{address}:{port}: {error}") from None
        host, bound = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else host
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{bound}/metrics"

    def close(self) -> None:
        """Stop serving the page."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False


def serve(
    kv: KVCacheManager,
    *,
    tiers: TierStats | None = None,
    publisher: BatchCounts | None = None,
    shadows: Shadows | None = None,
    engine: str = "0",
    port: int = PORT,
    address: str = "127.0.0.1",
) -> Server:
    """Serve a manager's metrics.

    Args:
        kv: As in `Collector`, as are the next four arguments.
        tiers: Likewise.
        publisher: Likewise.
        shadows: Likewise.
        engine: Likewise.
        port: The port to listen on; 0 for any that is free.
        address: The interface: this machine alone unless told otherwise.

    Raises:
        UsageError: The address is none, or in use; or ``kv`` is no manager.
    """
    collector = Collector(kv, tiers=tiers, publisher=publisher, shadows=shadows, engine=engine)
    return Server(collector, port, address)
