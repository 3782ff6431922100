"""Every chart that results allow."""

from __future__ import annotations

from collections.abc import Sequence

from kvframe.bench.charts.chart import Chart
from kvframe.bench.charts.gathered import Gathered
from kvframe.bench.charts.hits import at_many, by_size
from kvframe.bench.charts.over_time import by_request
from kvframe.bench.charts.paired import Paired, paired
from kvframe.bench.charts.server import by_load, by_row
from kvframe.bench.charts.tiers import by_tier


def differences(gathered: Gathered) -> list[Paired]:
    """Rates and intervals of each traffic, in its order."""
    return [paired(traffic) for traffic in gathered.traffic]


def charts(gathered: Gathered, made: Sequence[Paired]) -> list[Chart]:
    """All charts, in the order in which a reader sees them.

    Args:
        gathered: The results.
        made: Their `differences`.
    """
    found: list[Chart] = []
    for at, (traffic, one) in enumerate(zip(gathered.traffic, made, strict=True)):
        found += [*by_size(traffic, one, at), *by_request(traffic, at)]
    found += [chart for one in gathered.curves for chart in at_many(one)]
    return [*found, *by_load(gathered), *by_tier(gathered), *by_row(gathered)]
