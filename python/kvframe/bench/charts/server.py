"""Charts of simulated servers: what users feel by load, and from request to request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kvframe.bench.charts.chart import Axis, Chart, Format, Series, rounded
from kvframe.bench.charts.gathered import Gathered
from kvframe.bench.charts.over_time import PERCENTS, spread
from kvframe.bench.policies import BASELINE
from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.requests import RequestRow

_FIGURES: dict[str, tuple[str, str, Format]] = {
    "TTFT, mean": ("ttft_mean", "seconds to the first token (log scale)", "seconds"),
    "TTFT, median": ("ttft_p50", "seconds to the first token (log scale)", "seconds"),
    "TTFT, P90": ("ttft_p90", "seconds to the first token (log scale)", "seconds"),
    "TTFT, P99": ("ttft_p99", "seconds to the first token (log scale)", "seconds"),
    "ITL, mean": ("itl_mean", "milliseconds from token to token (log scale)", "milliseconds"),
    "ITL, P99": ("itl_p99", "milliseconds from token to token (log scale)", "milliseconds"),
    "E2E, median": ("e2e_p50", "seconds to the last token (log scale)", "seconds"),
    "E2E, P99": ("e2e_p99", "seconds to the last token (log scale)", "seconds"),
    "requests a second": ("requests_per_second", "finished requests a second", "number"),
    "tokens a second": ("output_tokens_per_second", "tokens of answers a second", "number"),
    "good requests a second": ("goodput", "requests a second that kept the promise", "number"),
    "hit rate": ("token_hit_rate", "prompt tokens found", "share"),
}
"""What is shown of a server: a field of its cell, the label of its axis, and how it is written."""

_LOAD = Axis(
    label="load: requests a second, times the trace's (log scale)",
    format="factor",
    log=True,
    lead="load ",
)
_PERCENT = Axis(label="per cent of requests", format="percent", round=True, unit=" of requests")


def by_load(gathered: Gathered) -> Iterator[Chart]:
    """A chart of each figure, trace and capacity."""
    groups: dict[tuple[str, int], list[ServerCell]] = defaultdict(list)
    for cell in gathered.servers:
        groups[cell.trace, cell.capacity_blocks].append(cell)
    for (trace, capacity), cells in groups.items():
        loads = sorted({cell.load for cell in cells})
        names = list(dict.fromkeys(cell.policy for cell in cells))
        for shown, (field, label, form) in _FIGURES.items():
            found = {(cell.policy, cell.load): getattr(cell, field) for cell in cells}
            if all(value is None for value in found.values()):
                continue
            lines = {name: [found.get((name, load)) for load in loads] for name in names}
            for against, y_axis in (
                ("", Axis(label=label, format=form, log=form in ("seconds", "milliseconds"))),
                (f" against {BASELINE}", Axis(label=f"change from {BASELINE}", format="change")),
            ):
                if against and (BASELINE not in lines or len(lines) < 2):
                    continue
                drawn = _changes(lines) if against else lines
                yield Chart(
                    family="load",
                    choice={"show": f"{shown}{against}", **_server(trace, capacity)},
                    title=f"{shown}{against} by load: {Path(trace).name}, {capacity:,} blocks",
                    x=loads,
                    series=[Series(name=name, y=rounded(y)) for name, y in drawn.items()],
                    x_axis=_LOAD,
                    y_axis=y_axis,
                    note=_saturated(cells),
                    said=_said(gathered, trace, capacity),
                )


def _changes(lines: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    """Each figure over that of lru, less 1."""
    return {
        name: [
            value / least - 1 if value is not None and least else None
            for value, least in zip(values, lines[BASELINE], strict=True)
        ]
        for name, values in lines.items()
        if name != BASELINE
    }


def _server(trace: str, capacity: int) -> dict[str, str]:
    return {"traffic": Path(trace).name, "size": str(capacity)}


def _said(gathered: Gathered, trace: str, capacity: int) -> list[str]:
    """The sentences of a trace and capacity, which begin as `bench.server.verdict` has it; and
    those between the variants of its experiment.
    """
    own, experiment = f"{trace}, load ", trace.partition("/")[0]
    return [
        text
        for text in gathered.sentences
        if (text.startswith(own) and f", {capacity} blocks: " in text)
        or (text.startswith((f"{experiment}, ", f"{experiment}: ")) and " variants" in text)
    ]


def _saturated(cells: Sequence[ServerCell]) -> str:
    loads = sorted({cell.load for cell in cells if cell.saturated})
    if not loads:
        return ""
    return f"Saturated with at least one policy at load {', '.join(f'{load:g}' for load in loads)}."


_Of = Callable[[RequestRow], float | None]
_BY_REQUEST: dict[str, tuple[str, Format, _Of]] = {
    "TTFT": (
        "seconds to the first token (log scale), at most",
        "seconds",
        lambda row: None if row.first_token is None else row.first_token - (row.arrival or 0.0),
    ),
    "E2E": (
        "seconds to the last token (log scale), at most",
        "seconds",
        lambda row: None if row.end is None else row.end - (row.arrival or 0.0),
    ),
    "share of the prompt found": (
        "share of the prompt found, at most",
        "share",
        lambda row: row.found / row.input_tokens if row.input_tokens else None,
    ),
}


def by_row(gathered: Gathered) -> Iterator[Chart]:
    """How figures are spread over the requests of each trace, capacity and load."""
    groups: dict[tuple[str, int, float], dict[str, list[RequestRow]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in gathered.rows:
        if row.fate == "finished":
            groups[row.trace, row.capacity_blocks, row.load][row.policy].append(row)
    for (trace, capacity, load), policies in groups.items():
        where = f"{Path(trace).name}, {capacity:,} blocks, load {load:g}"
        for shown, (label, form, of) in _BY_REQUEST.items():
            series = []
            for name, rows in policies.items():
                values = [value for value in map(of, rows) if value is not None]
                series.append(Series(name=name, y=spread(np.array(values))))
            yield Chart(
                family="requests",
                choice={"show": shown, **_server(trace, capacity), "load": f"{load:g}"},
                title=f"{shown} over requests: {where}",
                x=PERCENTS,
                series=series,
                x_axis=_PERCENT,
                y_axis=Axis(label=label, format=form, log=form == "seconds"),
            )
