"""The same metrics as instruments of OpenTelemetry (``pip install 'kvframe[otel]'``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from kvframe._core import __version__
from kvframe.manager import KVCacheManager
from kvframe.metrics.families import FAMILIES, Family
from kvframe.metrics.samples import BatchCounts, Sample, Shadows, TierStats, by_family, samples

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter
except ImportError as error:
    raise ImportError(
        "kvframe.metrics.otel needs OpenTelemetry: pip install 'kvframe[otel]'", name=error.name
    ) from error


def instrument(
    kv: KVCacheManager,
    *,
    meter: Meter | None = None,
    tiers: TierStats | None = None,
    publisher: BatchCounts | None = None,
    shadows: Shadows | None = None,
    engine: str = "0",
) -> None:
    """Observe a manager's metrics whenever OpenTelemetry collects.

    Names are those for Prometheus with a dot behind ``kvframe``, and without ``_total``, which its
    exporter adds again; labels are attributes.

    Args:
        kv: As in `kvframe.metrics.Collector`, as are the last four arguments.
        meter: Makes the instruments; that of the global provider if None.
        tiers: Likewise.
        publisher: Likewise.
        shadows: Likewise.
        engine: Likewise.
    """
    chosen = meter or get_meter("kvframe", __version__)
    source = _Source(lambda: by_family(samples(kv, tiers, publisher, shadows)))
    for family in FAMILIES:
        counts = family.kind == "counter"
        make = chosen.create_observable_counter if counts else chosen.create_observable_gauge
        name = family.name.replace("_", ".", 1).removesuffix("_total")
        make(name, [source.callback(family, engine)], description=family.help)


class _Source:
    """One reading of the manager for each collection, which asks for every family once."""

    def __init__(self, read: Callable[[], dict[str, list[Sample]]]) -> None:
        self._read, self._lock = read, threading.Lock()
        self._found: dict[str, list[Sample]] = {}
        self._asked: set[str] = set()

    def callback(
        self, family: Family, engine: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            names = ("engine", *family.labels)
            return [
                Observation(value, dict(zip(names, (engine, *labels), strict=True)))
                for _, labels, value in self._take(family.name)
            ]

        return observe

    def _take(self, name: str) -> list[Sample]:
        with self._lock:
            if name in self._asked or not self._asked:  # another collection has begun
                self._found, self._asked = self._read(), set()
            self._asked.add(name)
            return self._found.get(name, [])
