"""Replays a trace under every policy that an engine can run, and says how foresight fares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvframe.bench.bootstrap import drawn_rates, simultaneous
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.job import Job, Request
from kvframe.bench.outcomes import RequestOutcomes
from kvframe.bench.policies import BASELINE, OPTIMUM, choose, expand
from kvframe.registry import Registry

JUDGED = "foresight"
SHARES = ("0.5%", "2%", "8%", "30%")
"""Capacities, by a trace's distinct blocks."""
GATED, GATES = (BASELINE, "mq"), ("second-use", "frequency")
"""Eviction and admission policies that are also tried together."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """A trace at one capacity.

    Attributes:
        family: What the trace is one of.
        trace: Its name.
        share: The capacity as it was asked for.
        capacity: The same in blocks.
        whole: Points of prompt tokens hit, by policy.
        later: The same of the later half of the requests.
        optimum: What opt hits.
        timed: lru's and foresight's points by the clock.
        drawn: Gains of foresight over lru in resampled sessions.
    """

    family: str
    trace: str
    share: str
    capacity: int
    whole: dict[str, float]
    later: dict[str, float]
    optimum: float
    timed: tuple[float, float]
    drawn: Floats = field(repr=False)

    @property
    def gain(self) -> float:
        """Points that foresight hits above lru."""
        return self.whole[JUDGED] - self.whole[BASELINE]

    @property
    def gain_later(self) -> float:
        """The same of the later half."""
        return self.later[JUDGED] - self.later[BASELINE]

    @property
    def gain_timed(self) -> float:
        """The same of all requests by the clock."""
        return self.timed[1] - self.timed[0]

    @property
    def best(self) -> str:
        """The other policy that hits most."""
        return max((name for name in self.whole if name != JUDGED), key=self.whole.__getitem__)

    @property
    def ahead(self) -> float:
        """Points above that policy; negative below it."""
        return self.whole[JUDGED] - self.whole[self.best]


def online() -> list[str]:
    """Every installed policy that an engine can run."""
    registry = Registry()
    names, _ = expand(["all"], registry)
    return [name for name in names if not choose(name, registry).replay_only]


def judged(family: str, file: str, name: str, policies: Sequence[str], seed: int) -> list[Place]:
    """A trace at each capacity.

    Args:
        family: What it is one of.
        file: Where it is.
        name: What to call it.
        policies: Those to compare; lru and foresight among them.
        seed: Of the resampled sessions.
    """
    cells: dict[str, dict[str, Cell]] = {share: {} for share in SHARES}
    timed: dict[str, dict[str, Cell]] = {share: {} for share in SHARES}
    drawn: dict[str, Floats] = {}
    for asked in (
        Request(traces=(file,), policies=(*policies, OPTIMUM), capacities=SHARES, quiet=True),
        Request(traces=(file,), policies=GATED, admissions=GATES, capacities=SHARES, quiet=True),
        Request(
            traces=(file,),
            policies=(BASELINE, JUDGED),
            capacities=SHARES,
            modes=("timed",),
            quiet=True,
        ),
    ):
        job = Job(asked)
        outcome = job.run(())
        found = dict.fromkeys(plan.capacity for plan in outcome.cells if plan.capacity is not None)
        shares = dict(zip(found, SHARES, strict=True))
        for plan, cell in outcome.cells.items():
            if plan.asked and plan.capacity is not None:
                into = timed if plan.mode == "timed" else cells
                into[shares[plan.capacity]][plan.label] = cell
        if not drawn:
            drawn = {shares[size]: gains for size, gains in _drawn(outcome.requests, seed).items()}
    return [
        Place(
            family,
            name,
            share,
            cells[share][BASELINE].capacity_blocks or 0,
            {label: _points(cell) for label, cell in cells[share].items() if label != OPTIMUM},
            {label: _later(cell) for label, cell in cells[share].items() if label != OPTIMUM},
            _points(cells[share][OPTIMUM]),
            (_points(timed[share][BASELINE]), _points(timed[share][JUDGED])),
            drawn[share],
        )
        for share in SHARES
    ]


def _points(cell: Cell) -> float:
    return 100 * cell.token_hit_rate


def _later(cell: Cell) -> float:
    return 100 * cell.hit_tokens_last_half / max(cell.input_tokens_last_half, 1)


def _drawn(requests: dict[Plan, RequestOutcomes], seed: int) -> dict[int, Floats]:
    """Gains of foresight over lru, in points, by capacity; each policy sees the same draws."""
    hits: dict[int, dict[str, npt.NDArray[np.uint32]]] = defaultdict(dict)
    for plan, outcomes in requests.items():
        if plan.capacity is not None and plan.label in (BASELINE, JUDGED):
            hits[plan.capacity][plan.label] = outcomes.hit_tokens
    facts = next(iter(requests)).source.facts
    columns = [pair[label] for pair in hits.values() for label in (BASELINE, JUDGED)]
    rates = drawn_rates(columns, facts.input_tokens, facts.session, seed=seed)
    gains = 100 * (rates[:, 1::2] - rates[:, ::2])
    return {size: gains[:, at] for at, size in enumerate(hits)}


@dataclass(frozen=True)
class Judgement:
    """What is said of some places together; all in points of prompt tokens.

    Attributes:
        cells: How many.
        gain: Of foresight over lru, the mean.
        low: Where the 95 % interval of the gain begins; sessions are drawn anew within each trace.
        high: Where it ends.
        better: Cells in which foresight is really above lru, all intervals holding together.
        worse: Those in which it is really below.
        worst: The least gain, and where.
        worst_later: The same of the later half of the requests.
        timed: The mean gain by the clock.
        worst_timed: The least, and where.
        ahead: Of the best other policy of each cell, the mean.
        within: Shares of the cells that are at most half a point and a point below it.
        means: Of each policy over all cells, the most first.
    """

    cells: int
    gain: float
    low: float
    high: float
    better: int
    worse: int
    worst: tuple[float, str]
    worst_later: tuple[float, str]
    timed: float
    worst_timed: tuple[float, str]
    ahead: float
    within: tuple[float, float]
    means: dict[str, float]


def together(places: Sequence[Place]) -> Judgement:
    """What foresight comes to over these places, each of which counts alike."""
    gains = np.array([place.gain for place in places])
    drawn = np.stack([place.drawn for place in places], axis=1)
    low, high = np.quantile(drawn.mean(axis=1), (0.025, 0.975))
    intervals = simultaneous(gains, drawn)
    ahead = np.array([place.ahead for place in places])
    policies = list(places[0].whole)
    means = {name: float(np.mean([place.whole[name] for place in places])) for name in policies}

    def least(figure: str) -> tuple[float, str]:
        place = min(places, key=lambda place: getattr(place, figure))
        return float(getattr(place, figure)), f"{place.trace} at {place.share}"

    return Judgement(
        len(places),
        float(gains.mean()),
        float(low),
        float(high),
        int((intervals.low > 0).sum()),
        int((intervals.high < 0).sum()),
        least("gain"),
        least("gain_later"),
        float(np.mean([place.gain_timed for place in places])),
        least("gain_timed"),
        float(ahead.mean()),
        (float((ahead >= -0.5).mean()), float((ahead >= -1).mean())),
        dict(sorted(means.items(), key=lambda pair: -pair[1])),
    )
