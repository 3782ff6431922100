"""Charts of replays by cache size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvframe.bench.charts.chart import Axis, Chart, Series, rounded
from kvframe.bench.charts.gathered import BOUNDS, Traffic
from kvframe.bench.charts.paired import Paired
from kvframe.bench.curve import CurveResult
from kvframe.bench.misses import REASONS
from kvframe.bench.policies import BASELINE, BOUND, OPTIMUM

SIZES = Axis(label="cache size, blocks (log scale)", format="blocks", log=True, unit=" blocks")
_SHOWN = {"hit rate": "prompt tokens hit", "miss ratio": "prompt tokens computed"}
_PARTS = ("hit", "policy", "pinned", "capacity", "granularity", "cold")


def at_many(one: CurveResult) -> Iterator[Chart]:
    """A chart of each way to show the curves of a trace."""
    x = [float(size) for size in one.curves[0].capacities]
    off = [
        f"{curve.policy}'s is from {len(curve.replayed)} replays, between which it is off by "
        f"{100 * curve.error:.1f} points or less, as far as those can tell"
        for curve in one.curves
        if not curve.exact
    ]
    bend = one.knee_blocks
    knee = "has no knee" if bend is None else f"bends at {bend:,} blocks"
    told = "; ".join([f"Lru's curve {knee}", *off])
    name = f"{Path(one.trace).name}, {one.mode} mode, blocks of {one.block_size}"
    for shown, label in _SHOWN.items():
        series = []
        for curve in one.curves:
            rates = curve.token_hit_rates
            y = [1 - rate for rate in rates] if shown == "miss ratio" else rates
            series.append(Series(name=curve.policy, y=rounded(y)))
        yield Chart(
            family="curves",
            choice={"show": shown, "traffic": name},
            block_size=one.block_size,
            title=f"{shown.capitalize()} at many sizes: {name}",
            x=x,
            series=series,
            x_axis=SIZES,
            y_axis=Axis(label=label, format="share"),
            note=f"{told}.",
        )


def by_size(traffic: Traffic, made: Paired, at: int) -> Iterator[Chart]:
    """All charts of one traffic, the number ``at`` of them."""
    if traffic.sizes:
        yield from _hits(traffic, made, at)
        yield from _lead(traffic, made, at)
        yield from _gap(traffic, at)
        yield from _misses(traffic, at)


def _hits(traffic: Traffic, made: Paired, at: int) -> Iterator[Chart]:
    for shown, label in _SHOWN.items():
        series = [_rates(traffic, made, name, shown == "miss ratio") for name in traffic.policies]
        yield _sized(
            "hits",
            traffic,
            at,
            f"{shown.capitalize()} by cache size",
            series,
            Axis(label=label, format="share"),
            choice={"show": shown},
            said=[traffic.verdict.sentence] if traffic.verdict is not None else [],
        )


def _sized(
    family: str,
    traffic: Traffic,
    at: int,
    title: str,
    series: list[Series],
    y_axis: Axis,
    *,
    choice: dict[str, str],
    x: Sequence[float] | None = None,
    said: Sequence[str] = (),
) -> Chart:
    """A chart over the sizes of one traffic, or ``x`` of them."""
    return Chart(
        family=family,
        choice=choice,
        traffic=at,
        block_size=traffic.first.block_size,
        title=f"{title}: {traffic.label}",
        x=traffic.sizes if x is None else x,
        series=series,
        x_axis=SIZES,
        y_axis=y_axis,
        said=said,
    )


def _rates(traffic: Traffic, made: Paired, name: str, missed: bool) -> Series:
    y, low, high = traffic.line(name), [], []
    if made.low and name in made.policies:
        row = made.policies.index(name)
        low, high = ([round(end, 6) for end in ends[row]] for ends in (made.low, made.high))
    if missed:
        y = [None if rate is None else 1 - rate for rate in y]
        low, high = [1 - end for end in high], [1 - end for end in low]
    return Series(name=name, y=rounded(y), low=low, high=high)


def _lead(traffic: Traffic, made: Paired, at: int) -> Iterator[Chart]:
    if BASELINE not in made.policies or len(made.policies) < 2:
        return
    series = []
    for name in made.policies:
        if name != BASELINE:
            found = [made.difference(name, BASELINE, size) for size in made.sizes]
            y, low, high = ([round(row[i], 6) for row in found] for i in range(3))
            ends = (low, high) if made.errors else ([], [])
            series.append(Series(name=name, y=y, low=ends[0], high=ends[1]))
    y_axis = Axis(label="points of the hit rate", format="points")
    title = "Points ahead of lru"
    yield _sized("lead", traffic, at, title, series, y_axis, choice={}, x=made.sizes)


def _gap(traffic: Traffic, at: int) -> Iterator[Chart]:
    for bound in (OPTIMUM, *sorted(BOUNDS - {OPTIMUM, BOUND})):
        if bound not in traffic.policies:
            continue
        top = traffic.line(bound)
        series = []
        for name in traffic.policies:
            if name in BOUNDS:
                continue
            y = [
                None if most is None or rate is None else most - rate
                for most, rate in zip(top, traffic.line(name), strict=True)
            ]
            series.append(Series(name=name, y=rounded(y)))
        y_axis = Axis(label=f"points below {bound}", format="gap")
        title = f"Points below {bound}"
        yield _sized("gap", traffic, at, title, series, y_axis, choice={"bound": bound})


def _misses(traffic: Traffic, at: int) -> Iterator[Chart]:
    for size in traffic.sizes:
        rows = {}
        for name in traffic.policies:
            cells = [one.cell for one in traffic.of(name, size)]
            if cells and all(cell.misses for cell in cells):
                rows[name] = [_part(traffic, name, size, part) for part in _PARTS]
        if not rows:
            continue
        names = sorted(rows, key=lambda name: -rows[name][0])
        parts = [
            Series(name=part, y=[round(rows[name][i], 6) for name in names])
            for i, part in enumerate(_PARTS)
        ]
        yield Chart(
            family="misses",
            choice={"size": str(size)},
            traffic=at,
            title=f"Where prompt tokens went, {size:,} blocks: {traffic.label}",
            x=names,
            series=parts,
            x_axis=Axis(label="policy", format="number"),
            y_axis=Axis(label="share of prompt tokens", format="share"),
            form="bars",
        )


def _part(traffic: Traffic, name: str, size: int, part: str) -> float:
    """The share of prompt tokens that were hit, or missed for a reason."""

    def share(tokens: int, whole: int) -> float:
        return tokens / max(whole, 1)

    assert part == "hit" or part in REASONS
    if part == "hit":
        value = traffic.mean(name, size, lambda cell: cell.token_hit_rate)
    else:
        value = traffic.mean(
            name, size, lambda cell: share((cell.misses or {})[part], cell.input_tokens)
        )
    return value or 0.0
