"""Which variant of an experiment serves best, over several draws of its traffic.

All variants serve the same draws, so that their differences are paired by draw. One draw gives no
interval, since requests wait for one another; several are independent (Law, 2015, chapter 10).
Intervals are those of Student, of all pairs of variants at once: as wide as the largest of their
deviations asks for, by simulation with the variants' own covariance (Hothorn et al., 2008).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.promise import cost, decides, hardly_kept
from kvframe.bench.server.summary import short
from kvframe.bench.server.verdict import ALIKE, FACTORS

Floats = npt.NDArray[np.float64]
LEVEL = 0.95
_SIMULATED = 4_000
_SEED = 20_261


class Interval(NamedTuple):
    """What lies between two variants."""

    estimate: float
    low: float
    high: float


def between(values: Floats, level: float = LEVEL) -> dict[tuple[int, int], Interval]:
    """Intervals of the difference of every two columns, all of which hold with ``level``.

    Args:
        values: A row for each draw, two at least, and a column for each variant.
        level: As 0.95.
    """
    draws, count = values.shape
    pairs = list(combinations(range(count), 2))
    first, second = (list(side) for side in zip(*pairs, strict=True))
    mean, error = _studentised(values, first, second)
    # A root of the covariance; of fewer draws than variants it has zeros.
    scale, axes = np.linalg.eigh(np.atleast_2d(np.cov(values, rowvar=False)))
    root = axes * np.sqrt(np.maximum(scale, 0))
    dice = np.random.default_rng(_SEED)
    drawn = dice.standard_normal((_SIMULATED, draws, count)) @ root.T
    centre, spread = _studentised(drawn, first, second)
    ratio = np.divide(np.abs(centre), spread, out=np.zeros_like(centre), where=spread > 0)
    reach = float(np.quantile(ratio.max(axis=-1), level))
    found: dict[tuple[int, int], Interval] = {}
    for at, (a, b) in enumerate(pairs):
        here, off = float(mean[at]), reach * float(error[at])
        found[a, b] = Interval(here, here - off, here + off)
        found[b, a] = Interval(0.0 - here, 0.0 - here - off, 0.0 - here + off)
    return found


def _studentised(
    values: Floats, first: Sequence[int], second: Sequence[int]
) -> tuple[Floats, Floats]:
    """Means of the differences over draws, and their standard errors."""
    apart = values[..., first] - values[..., second]
    draws = apart.shape[-2]
    return apart.mean(axis=-2), apart.std(axis=-2, ddof=1) / np.sqrt(draws)


@dataclass(frozen=True)
class Tried:
    """A variant's row: the cells of all draws, the first one first.

    ``at_other_times`` has the first one again by what all step times are multiplied with. No engine
    can run what is ``replay_only``.
    """

    name: str
    cells: Sequence[ServerCell]
    at_other_times: Mapping[float, ServerCell]
    replay_only: bool


def sentence(where: str, variants: Mapping[str, Sequence[Tried]]) -> str:
    """Which variant serves best, and by how much.

    Args:
        where: The experiment and the load.
        variants: The rows of each; the best one stands for it.
    """
    served = {name: [row for row in rows if not row.replay_only] for name, rows in variants.items()}
    bounds = [name for name, rows in served.items() if not rows]
    ranked = {name: rows for name, rows in served.items() if rows}
    if len(ranked) < 2:
        few = "fewer than two have a policy that an engine can run"
        return f"{where}: no verdict between variants, since {few}."
    beside = f"; {', '.join(bounds)} left out, since no engine can run the policy" if bounds else ""
    return f"{where}: {_ranking(ranked)}{beside}."


def _ranking(variants: Mapping[str, Sequence[Tried]]) -> str:
    """Who leads of two or more, that engines can run."""
    tried = [row for rows in variants.values() for row in rows]
    if not all(cell.finished for row in tried for cell in row.cells):
        return "no verdict between variants, since some finished no request"
    every = [row.cells for row in tried]
    by_goodput = decides(every)
    rows = [
        min(rows, key=lambda row: np.mean(_costs(row, by_goodput))) for rows in variants.values()
    ]
    values = np.array([_costs(row, by_goodput) for row in rows]).T
    names = list(variants)
    winner = int(np.argmin(values.mean(axis=0)))
    figure = short(abs(float(values[:, winner].mean())))
    told = f"{figure} good requests/s" if by_goodput else f"mean TTFT {figure} s"
    told += f" under {rows[winner].name}"
    if len(values) < 2:
        ahead, alike = _distances(values[0], names, winner, by_goodput)
        basis = _outlasts(variants, names[winner], bool(ahead), by_goodput)
        basis += "; one draw of the traffic gives no interval"
    else:
        ahead, alike = _margins(values, names, winner, "/s" if by_goodput else " s")
        basis = (
            f"; intervals of {LEVEL:.0%} for all at once, over {len(values)} draws of the traffic"
        )
    if ahead:
        leads = f"{names[winner]} serves best of {len(names)} variants, {told}"
        leads += f"; ahead of {', '.join(ahead)}"
        leads += f"; not told apart from {', '.join(alike)}" if alike else ""
    else:
        leads = (
            f"the best of {len(names)} variants is not told apart: {names[winner]}, {told}, from "
            f"{', '.join(alike)}"
        )
    return f"{hardly_kept(every)}{leads}{basis}"


def _costs(row: Tried, by_goodput: bool) -> list[float]:
    """Of each draw; less is better."""
    return [cost(cell, by_goodput) for cell in row.cells]


_Told = tuple[list[str], list[str]]
"""Those that the winner is ahead of, by how much, and those that it is not told apart from."""


def _distances(values: Floats, names: Sequence[str], winner: int, by_goodput: bool) -> _Told:
    """By how much the winner of one draw is ahead of each of the others, the nearest first."""
    best, unit = float(values[winner]), "/s" if by_goodput else " s"
    ahead, alike = [], []
    for at in np.argsort(values, kind="stable").tolist():
        if at == winner:
            continue
        gap = float(values[at]) - best
        if gap > ALIKE * max(abs(best), abs(float(values[at]))):
            ahead.append(f"{names[at]} by {short(gap)}{unit}")
        else:
            alike.append(f"{names[at]} within {ALIKE:.0%}")
    return ahead, alike


def _outlasts(
    variants: Mapping[str, Sequence[Tried]], winner: str, leads: bool, by_goodput: bool
) -> str:
    """Whether the winner of one draw leads at other step times too, or none does there either."""
    others = []
    for factor in FACTORS:
        costs = {}
        for name, rows in variants.items():
            then = [row.at_other_times[factor] for row in rows if factor in row.at_other_times]
            if not then:
                return ""
            costs[name] = min(cost(cell, by_goodput) for cell in then)
        first = min(costs, key=lambda name: costs[name])
        same = costs[winner] if leads else max(costs.values())
        if same - costs[first] > ALIKE * max(abs(same), abs(costs[first])):
            others.append(f"{first} leads at {factor:g} times these step times")
    if others:
        return f"; {' and '.join(others)}"
    return f"; that survives step times of {' and '.join(f'{f:g}' for f in FACTORS)} times these"


def _margins(values: Floats, names: Sequence[str], winner: int, unit: str) -> _Told:
    """By how much the winner is ahead of each of the others, the nearest first."""
    apart = between(values)
    ahead: list[str] = []
    alike: list[str] = []
    for at in np.argsort(values.mean(axis=0), kind="stable").tolist():
        if at == winner:
            continue
        gap = apart[at, winner]
        span = " to ".join(f"-{short(-end)}" if end < 0 else short(end) for end in gap[1:])
        largest = np.abs(values[:, [at, winner]].mean(axis=0)).max()
        if gap.low > 0 and gap.estimate <= ALIKE * largest:
            span += f", within {ALIKE:.0%}"
        text = f"{names[at]} by {short(gap.estimate)}{unit} ({span})"
        (ahead if gap.low > 0 else alike).append(text)
    return ahead, alike
