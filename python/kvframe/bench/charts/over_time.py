"""Charts of replays along the trace, and over its requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kvframe.bench.charts.chart import Axis, Chart, Series
from kvframe.bench.charts.gathered import Kept, Traffic

STRETCHES = 50
"""Of the trace, in which hits are counted."""
PERCENTS = tuple(range(0, 101, 2))
_REQUESTS = Axis(label="requests served", format="count", round=True, unit=" requests")
_PERCENT = Axis(label="per cent of requests", format="percent", round=True, unit=" of requests")


def by_request(traffic: Traffic, at: int) -> Iterator[Chart]:
    """Charts at each size, of the first arrival seed, from what was kept of requests."""
    for size in traffic.sizes:
        kept = {name: found[0] for name in traffic.policies if (found := traffic.of(name, size))}
        yield from _over_time(traffic, kept, size, at)
        yield from _content(traffic, kept, size, at)
        yield from _shares(traffic, kept, size, at)


def _over_time(traffic: Traffic, kept: dict[str, Kept], size: int, at: int) -> Iterator[Chart]:
    facts = traffic.facts
    rows = _of_requests(traffic, kept)
    if facts is None or not rows:
        return
    ends = np.linspace(0, traffic.first.requests, STRETCHES + 1).astype(np.int64)
    starts = ends[:-1][ends[1:] > ends[:-1]]
    tokens = np.add.reduceat(facts.input_tokens.astype(np.int64), starts)
    series = []
    for name, hits in rows.items():
        found = np.add.reduceat(hits.astype(np.int64), starts) / np.maximum(tokens, 1)
        series.append(Series(name=name, y=np.round(found, 3).tolist()))
    yield Chart(
        family="over-time",
        choice=_size(size),
        traffic=at,
        title=f"Hit rate over time, {size:,} blocks: {traffic.label}",
        x=[int(end) for end in np.append(starts[1:], traffic.first.requests)],
        series=series,
        x_axis=_REQUESTS,
        y_axis=Axis(label="prompt tokens hit", format="share"),
    )


def _content(traffic: Traffic, kept: dict[str, Kept], size: int, at: int) -> Iterator[Chart]:
    found = {
        name: one.content
        for name, one in kept.items()
        if one.content is not None and one.cell.capacity_blocks is not None
    }
    if not found:
        return
    first = next(iter(found.values()))
    series = [
        Series(name=name, y=np.round(one.reused_blocks / size, 3).tolist())
        for name, one in found.items()
        if len(one.requests) == len(first.requests)
    ]
    yield Chart(
        family="content",
        choice=_size(size),
        traffic=at,
        title=f"Blocks of use later, {size:,} blocks: {traffic.label}",
        x=[int(request) for request in first.requests],
        series=series,
        x_axis=_REQUESTS,
        y_axis=Axis(label="blocks that are found again, of all", format="share"),
    )


def _shares(traffic: Traffic, kept: dict[str, Kept], size: int, at: int) -> Iterator[Chart]:
    facts = traffic.facts
    rows = _of_requests(traffic, kept)
    if facts is None or not rows:
        return
    some = facts.input_tokens > 0
    series = [
        Series(name=name, y=spread(hits[some] / facts.input_tokens[some]))
        for name, hits in rows.items()
    ]
    yield Chart(
        family="requests",
        choice={"show": "share of the prompt hit", **_size(size)},
        traffic=at,
        title=f"Share of each prompt hit, {size:,} blocks: {traffic.label}",
        x=PERCENTS,
        series=series,
        x_axis=_PERCENT,
        y_axis=Axis(label="share of the prompt hit, at most", format="share"),
    )


def _of_requests(traffic: Traffic, kept: dict[str, Kept]) -> dict[str, np.ndarray]:
    """Hit tokens of each request by policy, where all were kept."""
    count = traffic.first.requests
    return {
        name: one.outcomes.hit_tokens
        for name, one in kept.items()
        if count and one.outcomes is not None and len(one.outcomes.hit_tokens) == count
    }


def _size(size: int) -> dict[str, str]:
    return {"size": str(size)}


def spread(values: np.ndarray) -> Sequence[float | None]:
    """What each of `PERCENTS` per cent of the values do not exceed, by nearest rank."""
    if not len(values):
        return [None] * len(PERCENTS)
    found: list[float | None] = np.round(
        np.percentile(values, PERCENTS, method="inverted_cdf"), 4
    ).tolist()
    return found
