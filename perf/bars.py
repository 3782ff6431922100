"""What foresight has to reach on the shipped traces, and whether it does: a table of bars.

In engine mode beside every installed policy that an engine can run, as the record of `perf.zoo` has
them, and beside the ten that lead on a trace with the admission policies `second-use` and
`frequency`, replayed anew like foresight and lru. In timed mode beside lru.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from kvframe import _core
from kvframe.bench.admissions import KEEP_ALL
from kvframe.bench.cells import Cell
from kvframe.bench.job import Job, Request
from kvframe.bench.policies import BASELINE
from kvframe.bench.server.summary import quantiles
from kvframe.bench.traces import load
from perf.cells import ADMISSIONS, CAPACITIES, small
from perf.results import last_record
from perf.table import table
from perf.zoo_page import BOUNDS

OURS = "foresight"
LEADING = 10
"""Policies that are tried with each of `ADMISSIONS`."""
NEAR, NEAR_IN, FAR = 0.5, 0.9, 1.0
"""Points behind the best policy of a cell: in so large a share of the cells; and in all."""
WHOLE, LATE = -0.3, -0.5
"""The least gain over lru in points, of whole traces and of their later halves."""
TIMED = 2.0
"""The mean gain over lru in timed mode at the small half of the capacities, in points."""
LONGER = 0.01
"""By how much of lru's a percentile of the TTFT may be longer in any cell."""

Place = tuple[str, int]


class Rates(NamedTuple):
    """Token hit rates in percent: of all requests, and of the later half."""

    whole: float
    late: float


class Timed(NamedTuple):
    """Token hit rate in percent; TTFT in seconds, by nearest rank."""

    hit: float
    p50: float
    p99: float


def recorded() -> dict[Place, dict[str, Rates]]:
    """Each cell of the zoo's record, and there each policy that an engine can run."""
    found: dict[Place, dict[str, Rates]] = defaultdict(dict)
    for row in last_record("zoo")["rows"]:
        if ":" not in row["policy"] and row["policy"] not in BOUNDS:
            rates = Rates(100 * row["hit"], 100 * row["hit_last_half"])
            found[row["trace"], row["capacity"]][row["policy"]] = rates
    return found


def leading(cells: Mapping[Place, Mapping[str, Rates]]) -> list[str]:
    """The policies of the highest means, none of them lru under another name."""
    found = {name: [of[name].whole for of in cells.values()] for name in next(iter(cells.values()))}
    others = [name for name in found if name == BASELINE or found[name] != found[BASELINE]]
    return sorted(others, key=lambda name: -sum(found[name]))[:LEADING]


def replayed(trace: str, policies: Sequence[str], admissions: Sequence[str]) -> Iterator[Cell]:
    """The cells of ``kvframe bench run`` in engine mode."""
    job = Job(
        Request(
            traces=(trace,),
            policies=policies,
            admissions=admissions,
            capacities=tuple(map(str, CAPACITIES[trace])),
            modes=("engine",),
            quiet=True,
        )
    )
    for plan, cell in job.run(()).cells.items():
        if not plan.policy.replay_only:
            yield cell


def engine() -> dict[Place, dict[str, Rates]]:
    """The record, with foresight, lru and the pairs measured anew."""
    found = recorded()
    for trace, sizes in CAPACITIES.items():
        pairs = leading({(trace, size): found[trace, size] for size in sizes})
        alone = replayed(trace, (BASELINE, OURS), (KEEP_ALL,))
        for cell in chain(alone, replayed(trace, pairs, ADMISSIONS)):
            late = cell.hit_tokens_last_half / max(cell.input_tokens_last_half, 1)
            rates = Rates(100 * cell.token_hit_rate, 100 * late)
            found[trace, cell.capacity_blocks or 0][cell.policy] = rates
        print(f"{trace}, engine mode: done", file=sys.stderr)
    return found


def timed(trace: str, capacity: int, policy: str) -> Timed:
    """One replay by the clock."""
    got = _core.replay(load(trace).trace, policy, capacity, "timed", per_request=True)
    waits = got["request_ttft_seconds"]
    told = quantiles(waits[~np.isnan(waits)])
    hit = 100 * got["hit_tokens"] / got["input_tokens"]
    return Timed(hit, told.p50 or 0.0, told.p99 or 0.0)


class Bar(NamedTuple):
    """What is asked, whether it is so, and the figure."""

    asked: str
    held: bool
    figure: str


def of_hits(cells: Mapping[Place, Mapping[str, Rates]]) -> Iterator[Bar]:
    """Those of engine mode."""
    behind, others = {}, defaultdict(list)
    for place, of in cells.items():
        rest = {name: rates.whole for name, rates in of.items() if name != OURS}
        best = max(rest, key=lambda name: rest[name])
        behind[place] = (rest[best] - of[OURS].whole, best)
        for name, rate in rest.items():
            others[name].append(rate)
    near = sum(lag <= NEAR for lag, _ in behind.values())
    yield Bar(
        f"at most {NEAR:g} points behind the best in nine of ten cells",
        near >= NEAR_IN * len(cells),
        f"{near} of {len(cells)}",
    )
    place, (lag, best) = max(behind.items(), key=lambda item: item[1])
    yield Bar(
        f"at most {FAR:g} behind in all",
        lag <= FAR,
        f"{lag:.2f} behind `{best}` in {named(place)}",
    )
    means = {
        name: sum(rates) / len(cells) for name, rates in others.items() if len(rates) == len(cells)
    }
    best = max(means, key=lambda name: means[name])
    ours = sum(of[OURS].whole for of in cells.values()) / len(cells)
    yield Bar(
        "mean over all cells above every other policy's",
        ours > means[best],
        f"{ours:.2f}, `{best}` {means[best]:.2f}",
    )
    for what, least, at in (("whole trace", WHOLE, 0), ("later half", LATE, 1)):
        gains = {place: of[OURS][at] - of[BASELINE][at] for place, of in cells.items()}
        worst = min(gains, key=lambda place: gains[place])
        yield Bar(
            f"never more than {-least:g} points below lru, {what}",
            gains[worst] >= least,
            f"{gains[worst]:+.2f} in {named(worst)}",
        )


def by_clock(cells: Mapping[Place, tuple[Timed, Timed]]) -> Iterator[Bar]:
    """Those of timed mode; a cell is of lru and of foresight."""
    half = [
        ours.hit - lru.hit for (trace, size), (lru, ours) in cells.items() if size in small(trace)
    ]
    mean = sum(half) / len(half)
    yield Bar(
        f"timed mode: mean gain over lru of {TIMED:g} points at the small half",
        mean >= TIMED,
        f"{mean:+.2f}",
    )
    for what, at in (("median", 1), ("P99", 2)):
        longer = {place: ours[at] / lru[at] - 1 for place, (lru, ours) in cells.items()}
        worst = max(longer, key=lambda place: longer[place])
        beyond = sum(change > LONGER for change in longer.values())
        yield Bar(
            f"timed mode: {what} TTFT at most {LONGER:.0%} longer than under lru in any cell",
            not beyond,
            f"{longer[worst]:+.1%} in {named(worst)}; beyond it {beyond} of {len(cells)}",
        )


def named(place: Place) -> str:
    """For people."""
    return f"{place[0]}, {place[1]:,}"


def told(bars: Sequence[Bar]) -> str:
    """The table."""
    lines = [[bar.asked, "held" if bar.held else "**missed**", bar.figure] for bar in bars]
    return table(["bar", "", "figure"], lines)


def measured() -> str:
    """Replay everything; the table."""
    hits = engine()
    clock = {}
    for trace, sizes in CAPACITIES.items():
        for size in sizes:
            lru, ours = (timed(trace, size, policy) for policy in (BASELINE, OURS))
            clock[trace, size] = lru, ours
        print(f"{trace}, by the clock: done", file=sys.stderr)
    return told([*of_hits(hits), *by_clock(clock)])
