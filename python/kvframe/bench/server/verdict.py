"""Which policy serves users best at a load, and whether that outlasts an error in step times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kvframe.bench.policies import BASELINE
from kvframe.bench.server.cells import ServerCell, ServerPlan
from kvframe.bench.server.promise import Rows, cost, decides, hardly_kept
from kvframe.bench.server.summary import short

FACTORS = (0.7, 1.4)
"""What all step times are multiplied with, to see whether the ranking stays."""
ALIKE = 0.05
"""Two policies are alike where the better one's figure is off the worse one's by no more. It is a
rule of thumb: requests wait for one another, so those of one run give no interval."""

Cells = dict[ServerPlan, ServerCell]


def sentence(cells: Cells) -> str:
    """The verdict on one trace, capacity and load.

    Args:
        cells: Its simulations, those of all time factors.
    """
    cells = _in_place(cells)
    plan, first = next(iter(cells.items()))
    servers = f"{plan.fleet.before_blocks}{first.capacity_blocks} blocks"
    where = f"{plan.source.name}, load {plan.load:g}, {servers}"
    said = "".join((rejected(cells), _judged(cells), unfinished(cells), _saturated(first)))
    return f"{where}: {said}."


def _in_place(cells: Cells) -> Cells:
    """Those with the tiers that were asked for."""
    below = {plan: cell for plan, cell in cells.items() if plan.tiers is not None}
    return below or cells


def _judged(cells: Cells) -> str:
    tried = {plan: cell for plan, cell in cells.items() if plan.time_factor == 1.0}
    online = [cell for plan, cell in tried.items() if not plan.policy.replay_only]
    bounds = [cell for plan, cell in tried.items() if plan.policy.replay_only]
    field = _Field(online or bounds)
    if not any(cell.finished for cell in tried.values()):
        return "no verdict, since no request was finished"
    said = hardly_kept(field.rows) + field.said()
    if online:
        said += "".join(f"; {field.shown(cell)}{field.no_bound(cell)}" for cell in bounds)
    others = {
        factor: [cell for plan, cell in cells.items() if plan.time_factor == factor]
        for factor in FACTORS
    }
    if not all(others.values()):
        return said
    told = field.outlasts(others) if len(field.cells) > 1 else field.at_other_times(others)
    return f"{said}; {told}"


@dataclass(frozen=True)
class _Field:
    """What is compared: requests a second that kept the promise, or else the mean time to the first
    token (`kvframe.bench.server.promise`).
    """

    cells: Sequence[ServerCell]

    @property
    def rows(self) -> Rows:
        return [[cell] for cell in self.cells]

    @cached_property
    def by_goodput(self) -> bool:
        return decides(self.rows)

    def cost(self, cell: ServerCell) -> float:
        """Less is better."""
        return cost(cell, self.by_goodput)

    def ahead(self, one: ServerCell, other: ServerCell) -> float:
        """By which share of the larger of both figures one is better than another."""
        a, b = self.cost(one), self.cost(other)
        return (b - a) / (max(abs(a), abs(b)) or 1.0)

    def is_better(self, one: ServerCell, other: ServerCell) -> bool:
        """Whether ``one`` beats ``other`` by more than the relative difference `ALIKE`."""
        return self.ahead(one, other) > ALIKE

    def best(self, cells: Sequence[ServerCell]) -> ServerCell:
        """The one with the best figure, but lru where that is alike."""
        first = min(cells, key=self.cost)
        alike = (c for c in cells if c.policy == BASELINE and not self.is_better(first, c))
        return next(alike, first)

    def figures(self, cell: ServerCell) -> str:
        """What it is judged by."""
        promised = f"{short(cell.goodput)} good requests/s, " if self.by_goodput else ""
        return f"{promised}mean TTFT {short(cell.ttft_mean)} s"

    def shown(self, cell: ServerCell) -> str:
        """A policy and its figures."""
        return f"{cell.policy} {self.figures(cell)}"

    def said(self) -> str:
        """The figures, and who is ahead."""
        best, worst = self.best(self.cells), max(self.cells, key=self.cost)
        if len(self.cells) == 1:
            return f"one policy was tried, {self.shown(best)}"
        if not self.is_better(best, worst):
            return (
                f"the choice among {len(self.cells)} policies does not matter, they are within "
                f"{ALIKE:.0%}, {self.shown(best)}"
            )
        others = [cell for cell in self.cells if cell is not best]
        alike = [cell.policy for cell in others if not self.is_better(best, cell)]
        within = f" ({', '.join(alike)} within {ALIKE:.0%})" if alike else ""
        return (
            f"{best.policy} serves best of {len(self.cells)}{within}, {self.shown(best)}; last is "
            f"{self.shown(worst)}, {lag(best, worst, self.by_goodput)}"
        )

    def no_bound(self, cell: ServerCell) -> str:
        """What is to be said of an optimum of hits that serves worse than the best."""
        if not self.is_better(self.best(self.cells), cell):
            return ""
        return " (an optimum of hits, which is no bound of what users feel)"

    def at_other_times(self, others: dict[float, list[ServerCell]]) -> str:
        """What its one policy gives at other time factors."""
        told = [f"{self.figures(cells[0])} at {factor:g}" for factor, cells in others.items()]
        return f"{' and '.join(told)} times these step times"

    def outlasts(self, others: dict[float, list[ServerCell]]) -> str:
        """Whether the order of the policies is the same at other time factors."""
        best = self.best(self.cells)
        ahead = []
        for factor, cells in others.items():
            same = next(cell for cell in cells if cell.policy == best.policy)
            first = min(cells, key=self.cost)
            if self.is_better(first, same):
                ahead.append(f"{first.policy} leads at {factor:g}")
        if ahead:
            return f"with other step times it would be another: {' and '.join(ahead)} times these"
        apart = [f"{factor:g}" for factor, cells in others.items() if self._parts(cells)]
        if apart and not self._parts(self.cells):
            return f"with step times of {' and '.join(apart)} times these it does matter"
        if any(self._turned(cells) for cells in others.values()):
            return (
                "the first place survives step times of 0.7 and 1.4 times these, the rest does not"
            )
        return "the ranking survives step times of 0.7 and 1.4 times these"

    def _parts(self, cells: Sequence[ServerCell]) -> bool:
        """Whether the best and the last differ by more than `ALIKE`."""
        return self.is_better(self.best(cells), max(cells, key=self.cost))

    def _turned(self, cells: Sequence[ServerCell]) -> bool:
        """Whether two policies have changed places."""
        then = {cell.policy: cell for cell in cells}
        return any(
            self.is_better(one, other) and self.is_better(then[other.policy], then[one.policy])
            for one in self.cells
            for other in self.cells
        )


def lag(best: ServerCell, worst: ServerCell, by_goodput: bool) -> str:
    """By how much the last falls short of the best, in shares of the best one's figure."""
    if by_goodput:
        return f"{1 - (worst.goodput or 0.0) / (best.goodput or 1.0):.0%} fewer"
    if not best.ttft_mean:
        return "longer"
    return f"{(worst.ttft_mean or 0.0) / best.ttft_mean - 1:.0%} longer"


def rejected(cells: Cells) -> str:
    """Requests that figures leave out, at worst of all that was simulated; empty if none."""
    count = max(cell.rejected for cell in cells.values())
    if not count:
        return ""
    others = "; of the others, " if any(cell.finished for cell in cells.values()) else "; "
    return f"{_requests(count)} rejected, larger than the pool{others}"


def unfinished(cells: Cells) -> str:
    """Requests that had no answer when the simulation ended, at worst; empty if there are none."""
    count = max(cell.unfinished for cell in cells.values())
    return f"; {_requests(count)} not finished" if count else ""


def _requests(count: int) -> str:
    return f"{count:,} request{'' if count == 1 else 's'}"


def _saturated(cell: ServerCell) -> str:
    if not cell.saturated:
        return ""
    return f"; saturated: {cell.drain:,.0f} s of work were left after the last arrival"
