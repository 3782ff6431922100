"""OpenTelemetry's own reader collects what Prometheus scrapes."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, InMemoryMetricReader, NumberDataPoint, Sum

from kvframe.metrics.families import FAMILIES
from kvframe.metrics.otel import instrument
from kvframe.metrics.samples import samples

from .engine import engine, serve_one


def collected(reader: InMemoryMetricReader) -> dict[str, tuple[type, dict[frozenset[str], float]]]:
    """By instrument: the kind of its data, and values by attributes other than the engine."""
    found = {}
    told = reader.get_metrics_data()
    assert told is not None
    for metric in told.resource_metrics[0].scope_metrics[0].metrics:
        points = {}
        for point in metric.data.data_points:
            names = dict(point.attributes or {})
            assert names.pop("engine") == "east"
            assert isinstance(point, NumberDataPoint)
            points[frozenset(map(str, names.values()))] = point.value
        found[metric.name] = type(metric.data), points
    return found


def test_every_metric_is_an_instrument_of_its_kind_with_the_same_values(tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    with engine(tmp_path) as (_, kv, tiers):
        instrument(kv, meter=meter, tiers=tiers, engine="east")
        for _ in range(2):
            found = collected(reader)
            values: dict[str, dict[frozenset[str], float]] = {}
            for sample in samples(kv, tiers):
                values.setdefault(sample.family, {})[frozenset(sample.labels)] = sample.value
            for family in FAMILIES:
                name = family.name.replace("kvframe_", "kvframe.").removesuffix("_total")
                if family.name not in values:
                    assert name not in found
                    continue
                kind, points = found[name]
                assert kind is (Sum if family.kind == "counter" else Gauge)
                assert points == values[family.name]
            serve_one(kv, tiers, [*range(70_000, 70_010)])
