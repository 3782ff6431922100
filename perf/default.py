"""``python -m perf.default``: foresight beside lru, on the shipped traces and on made-up traffic.

Prints token hit rates and gains in points, over the whole trace, of its later half, and by the
clock beside running sequences, and writes them into docs/explanation/default-policy.md. An interval
is of the same requests under both policies, whole sessions resampled together (those that
`perf.sessions` tells), and holds for all gains of the table at once. ``--bars`` says instead what
foresight is held to, and whether it holds (some minutes).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.bench.bootstrap import Intervals, drawn_rates, simultaneous
from kvframe.bench.traces import load
from perf import bars
from perf.cells import CAPACITIES, small
from perf.pages import write
from perf.results import warn_debug
from perf.sessions import turns_of
from perf.table import table
from perf.workloads import FAMILIES, SIZE, made, rows

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "default-policy.md"
SHARES = (0.005, 0.02, 0.06, 0.15, 0.4)
"""Capacities of made-up traffic, by its blocks that differ."""
SEEDS = 2
"""Of each family of made-up traffic."""
BELOW = (0.3, 0.5)
"""Points below lru that are counted."""

Floats = npt.NDArray[np.float64]


class Gains(NamedTuple):
    """Rates of a trace's cells by column: lru and foresight at each capacity, in turns."""

    rates: Floats
    drawn: Floats

    @property
    def points(self) -> Floats:
        """Gains over lru."""
        return self.rates[1::2] - self.rates[::2]

    @property
    def drawn_points(self) -> Floats:
        """Those of resampled sessions, a row a draw."""
        return self.drawn[:, 1::2] - self.drawn[:, ::2]


def gains(name: str) -> list[Gains]:
    """Of one shipped trace: whole, of the later half, by the clock."""
    trace = load(name).trace
    tokens, session = trace.columns()["input_tokens"], turns_of(trace).session
    late = np.arange(trace.requests) >= trace.requests // 2

    def hits(mode: str) -> list[npt.NDArray[np.int64]]:
        return [
            _core.replay(trace, policy, capacity, mode, per_request=True)[
                "request_hit_tokens"
            ].astype(np.int64)
            for capacity in CAPACITIES[name]
            for policy in ("lru", bars.OURS)
        ]

    def rates(columns: list[npt.NDArray[np.int64]], of: npt.NDArray[Any]) -> Gains:
        columns = [column * of for column in columns]
        whole = np.array([column.sum() for column in columns]) / (tokens * of).sum()
        return Gains(100 * whole, 100 * drawn_rates(columns, tokens * of, session))

    engine = hits("engine")
    every = np.ones(trace.requests, np.int64)
    return [rates(engine, every), rates(engine, late), rates(hits("timed"), every)]


def shipped() -> str:
    """The table of the shipped traces, and what it comes to."""
    found = {}
    for name in CAPACITIES:
        found[name] = gains(name)
        print(f"{name}: done", file=sys.stderr)
    by_kind = [
        (
            np.concatenate([of[kind].points for of in found.values()]),
            _joined([of[kind].drawn_points for of in found.values()]),
        )
        for kind in range(3)
    ]
    told = simultaneous(
        np.concatenate([points for points, _ in by_kind]),
        np.hstack([drawn for _, drawn in by_kind]),
    )
    places = [(name, size) for name, sizes in CAPACITIES.items() for size in sizes]
    lines = []
    for at, (name, size) in enumerate(places):
        lru, ours = found[name][0].rates.reshape(-1, 2)[CAPACITIES[name].index(size)]
        texts = (_interval(told, at + kind * len(places)) for kind in range(3))
        lines.append([name, f"{size:,}", f"{lru:.2f}", f"{ours:.2f}", *texts])
    half = [at for at, (name, size) in enumerate(places) if size in small(name)]
    (whole, whole_drawn), (late, _), (clock, clock_drawn) = by_kind
    means = simultaneous(
        np.array([whole[half].mean(), whole.mean(), clock[half].mean(), clock.mean()]),
        np.stack(
            [
                *(whole_drawn[:, half].mean(axis=1), whole_drawn.mean(axis=1)),
                *(clock_drawn[:, half].mean(axis=1), clock_drawn.mean(axis=1)),
            ],
            axis=1,
        ),
    )
    beyond = np.flatnonzero(told.real)
    head = ["trace", "blocks", "lru", "foresight", "gain", "gain, later half", "gain, timed"]
    said = (
        f"Mean gain {_interval(means, 0)} points over the small half of each trace's capacities, "
        f"{_interval(means, 1)} over all; in timed mode {_interval(means, 2)} and "
        f"{_interval(means, 3)}. The least of any cell is {whole.min():+.2f}, of a later half "
        f"{late.min():+.2f}, in timed mode {clock.min():+.2f}. Beyond chance are {len(beyond)} of "
        f"{len(told.real)} differences; {sum(told.estimate[beyond] > 0)} of these are gains."
    )
    return f"{table(head, lines)}\n\n{said}"


def _joined(drawn: list[Floats]) -> Floats:
    """Traces are independent: their draws are paired with one another in any order."""
    dice = np.random.default_rng(0)
    return np.hstack([draws[dice.permutation(len(draws))] for draws in drawn])


def _interval(told: Intervals, at: int) -> str:
    estimate, low, high = (float(of[at]) for of in (told.estimate, told.low, told.high))
    return f"{estimate:+.2f} [{low:+.2f}, {high:+.2f}]"


class Cell(NamedTuple):
    """Gains over lru in points, at a capacity of made-up traffic."""

    family: str
    capacity: int
    whole: float
    late: float
    timed: float


def made_cells(family: str, seed: int) -> list[Cell]:
    """One draw of a family, at each capacity."""
    prompts = made(family, seed)
    unique = len({block for prompt in prompts for block in prompt})
    trace = _core.Trace.parse(b"".join(rows(prompts)), f"{family} {seed}", SIZE)

    def rates(policy: str, capacity: int, mode: str) -> tuple[float, float]:
        got = _core.replay(trace, policy, capacity, mode)
        late = got["hit_tokens_last_half"] / max(got["input_tokens_last_half"], 1)
        return 100 * got["hit_tokens"] / got["input_tokens"], 100 * late

    cells = []
    for capacity in sorted({max(50, int(unique * share)) for share in SHARES}):
        lru, ours = (rates(policy, capacity, "engine") for policy in ("lru", bars.OURS))
        clock = [rates(policy, capacity, "timed")[0] for policy in ("lru", bars.OURS)]
        gain = (ours[0] - lru[0], ours[1] - lru[1], clock[1] - clock[0])
        cells.append(Cell(family, capacity, *gain))
    return cells


def made_up() -> str:
    """What all cells come to, a row a family, and the least cells."""
    of: dict[str, list[Cell]] = defaultdict(list)
    for family in FAMILIES:
        for seed in range(SEEDS):
            of[family] += made_cells(family, seed)
        print(f"{family}: done", file=sys.stderr)
    cells = [cell for some in of.values() for cell in some]
    lines = [
        [
            family,
            f"{min(cell.whole for cell in some):+.2f}",
            f"{max(cell.whole for cell in some):+.2f}",
            f"{min(cell.timed for cell in some):+.2f}",
        ]
        for family, some in of.items()
    ]
    counts = [sum(cell.whole < -below for cell in cells) for below in BELOW]
    least = sorted(cells, key=lambda cell: cell.whole)[:3]
    worst = [f"{cell.family} at {cell.capacity:,} blocks ({cell.whole:+.2f})" for cell in least]
    intro = (
        f"Over all {len(cells)} cells the mean is "
        f"{sum(cell.whole for cell in cells) / len(cells):+.2f}, the least {least[0].whole:+.2f}, "
        f"and the least of a later half {min(cell.late for cell in cells):+.2f}; {counts[0]} cells "
        f"are more than {BELOW[0]:g} points below lru, {counts[1]} more than {BELOW[1]:g}. The "
        f"least are {worst[0]}, {worst[1]} and {worst[2]}."
    )
    head = ["family", "least gain", "greatest gain", "least gain, timed"]
    return f"{intro}\n\n{table(head, lines)}"


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m perf.default", description=__doc__)
    parser.add_argument("--bars", action="store_true", help="what foresight is held to")
    parser.add_argument("--traffic", choices=("shipped", "made"), help="one alone")
    asked = parser.parse_args()
    warn_debug()
    parts = {
        "--bars": bars.measured,
        "--traffic shipped": shipped,
        "--traffic made": made_up,
    }
    chosen = ["--bars"] if asked.bars else [f"--traffic {asked.traffic}"]
    for part in chosen if asked.bars or asked.traffic else list(parts)[1:]:
        told = parts[part]()
        print(told)
        write(PAGE, f"perf.default {part}", told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
