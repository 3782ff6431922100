"""Charts of tiers below a simulated server's pool: where hits came from, and what they saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvframe.bench.charts.chart import Axis, Chart, Series, rounded
from kvframe.bench.charts.gathered import Gathered
from kvframe.bench.server.cells import ServerCell

_TTFT = {"TTFT, mean": "ttft_mean", "TTFT, P99": "ttft_p99"}
_LOAD = Axis(
    label="load: requests a second, times the trace's (log scale)",
    format="factor",
    log=True,
    lead="load ",
)
COMPUTED = "computed"


def by_tier(gathered: Gathered) -> Iterator[Chart]:
    """For each trace and capacity with tiers: hits by tier, and the time to the first token without
    and with them.
    """
    groups: dict[tuple[str, int], list[ServerCell]] = defaultdict(list)
    for cell in gathered.servers:
        groups[cell.trace, cell.capacity_blocks].append(cell)
    for (trace, capacity), cells in groups.items():
        below = [cell for cell in cells if cell.tiers]
        if not below:
            continue
        told = [text for text in gathered.host_sentences if text.startswith(f"{trace}, load ")]
        said = [text for text in told if f", {capacity} blocks: " in text]
        where = f"{Path(trace).name}, {capacity:,} blocks"
        choice = {"traffic": Path(trace).name, "size": str(capacity)}
        yield _hits(cells, below, where, choice, said)
        for shown, field in _TTFT.items():
            yield _times(cells, below, (shown, field), where, choice, said)


def _hits(
    cells: Sequence[ServerCell],
    below: Sequence[ServerCell],
    where: str,
    choice: dict[str, str],
    said: Sequence[str],
) -> Chart:
    """Of all prompt tokens: found in the pool, in each tier, or computed."""
    order = sorted(_pairs(cells, below), key=lambda cell: (cell.load, cell.policy))
    names = list(dict.fromkeys(name for cell in below for name in cell.tier_hit_tokens))
    rows = [_shares(cell) for cell in order]
    parts = [Series(name=name, y=rounded(row.get(name, 0.0) for row in rows)) for name in names]
    parts.append(Series(name=COMPUTED, y=rounded(1 - cell.token_hit_rate for cell in order)))
    return Chart(
        family="tiers",
        choice={"show": "hits by tier", **choice},
        title=f"Where prompt tokens were found: {where}",
        x=[f"load {cell.load:g}, {cell.policy}" for cell in order],
        series=parts,
        x_axis=Axis(label="load and policy", format="number"),
        y_axis=Axis(label="share of prompt tokens", format="share"),
        form="bars",
        note="; ".join(dict.fromkeys(cell.tiers for cell in below)) + ".",
        said=said,
    )


def _times(
    cells: Sequence[ServerCell],
    below: Sequence[ServerCell],
    shown: tuple[str, str],
    where: str,
    choice: dict[str, str],
    said: Sequence[str],
) -> Chart:
    title, field = shown
    paired = _pairs(cells, below)
    loads = sorted({cell.load for cell in paired})
    found = {(cell.policy, cell.load): getattr(cell, field) for cell in paired}
    lines = [
        Series(name=name, y=rounded(found.get((name, load)) for load in loads))
        for name in dict.fromkeys(cell.policy for cell in paired)
    ]
    saturated = sorted({cell.load for cell in paired if cell.saturated})
    loads_told = ", ".join(f"{load:g}" for load in saturated)
    return Chart(
        family="tiers",
        choice={"show": title, **choice},
        title=f"{title} without and with tiers: {where}",
        x=loads,
        series=lines,
        x_axis=_LOAD,
        y_axis=Axis(label="seconds to the first token (log scale)", format="seconds", log=True),
        note=f"Saturated without tiers or with them at load {loads_told}." if saturated else "",
        said=said,
    )


def _pairs(cells: Sequence[ServerCell], below: Sequence[ServerCell]) -> list[ServerCell]:
    """Cells with tiers, and those of the same policies without."""
    with_tiers = {cell.policy for cell in below}
    names = {name.rpartition(" over ")[0] for name in with_tiers} | with_tiers
    return [cell for cell in cells if cell.policy in names]


def _shares(cell: ServerCell) -> dict[str, float]:
    """Parts of the prompt tokens, by where they were found."""
    found = sum(cell.tier_hit_tokens.values())
    if not found:
        return {"pool": cell.token_hit_rate}
    return {
        name: cell.token_hit_rate * tokens / found for name, tokens in cell.tier_hit_tokens.items()
    }
