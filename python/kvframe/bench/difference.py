"""``kvframe bench compare A B``: what changed between two results, and whether that is real.

Cells are matched by trace, mode, block size, load, arrival seed, capacity and policy. Where both
results keep the outcomes of their requests (a directory of ``--out``), an interval is of the same
requests under both, resampled together, and holds for all cells at once. From other JSON only the
figures are compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from kvframe.bench.bootstrap import DRAWS, LEVEL, drawn_rates, simultaneous, told
from kvframe.bench.cells import Cell
from kvframe.bench.outcomes import RequestFacts, RequestOutcomes
from kvframe.bench.report import Table
from kvframe.bench.results import read_cells, read_facts, read_names, read_outcomes
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

RATE = "token_hit_rate"
NAMED = 6
"""Cells without a partner that are named; of more it says how many."""

_LIMIT = re.compile(r"\s*(\w+)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*(pp|%)?\s*")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of one cell in both results.

    Attributes:
        trace: Of the cell, as the others.
        mode: The mode.
        policy: The policy.
        capacity_blocks: Blocks.
        metric: The figure's name.
        before: In A.
        after: In B.
        low: Where the interval of the difference begins; None without the requests' outcomes.
        high: Where it ends.
        p: Adjusted for all cells.
    """

    trace: str
    mode: str
    policy: str
    capacity_blocks: int | None
    metric: str
    before: float
    after: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def real(self) -> bool | None:
        """Whether zero lies outside of the interval; None where there is none."""
        if self.low is None or self.high is None:
            return None
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        size = "any capacity" if self.capacity_blocks is None else f"{self.capacity_blocks} blocks"
        return f"{self.trace} {self.mode} {self.policy} {size}"


@dataclass(frozen=True)
class Limit:
    """What ``--fail-if`` asks: ``token_hit_rate < -0.5pp``."""

    text: str
    metric: str
    below: bool
    change: float
    relative: bool

    @classmethod
    def parse(cls, text: str) -> Limit:
        """``METRIC < CHANGE``: in the metric's unit, points (``pp``), or per cent of A (``%``).

        Raises:
            ConfigError: It reads otherwise.
        """
        found = _LIMIT.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"--fail-if {text}: must read 'METRIC < CHANGE', as 'token_hit_rate < -0.5pp'"
            )
        name, sign, number, unit = found.groups()
        metric = RATE if name == "token_hit" else name
        change = float(number) / (100 if unit else 1)
        return cls(text, metric, sign == "<", change, unit == "%")

    def crossed(self, difference: Difference) -> bool:
        """Whether a difference is beyond the limit, and not chance as far as that can be said."""
        change = difference.change
        if self.relative:
            change = _relative(change, difference.before)
        beyond = change < self.change if self.below else change > self.change
        return beyond and difference.real is not False


def _relative(change: float, before: float) -> float:
    if change == 0:
        return 0.0
    return change / abs(before) if before else math.copysign(math.inf, change)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Two results.

    Attributes:
        differences: Of the cells that both have, for each metric.
        only_in_a: Cells without a partner in B, in words.
        only_in_b: Cells without a partner in A.
        doubt: What the intervals are of, a line a trace; none where there are no intervals.
    """

    differences: list[Difference]
    only_in_a: list[str]
    only_in_b: list[str]
    doubt: list[str]

    def alone(self) -> list[str]:
        """What has no partner, a line a result; none where all have one."""
        sides = {"A": self.only_in_a, "B": self.only_in_b}
        return [f"only in {side}: {_some(cells)}." for side, cells in sides.items() if cells]


def compared(a: str, b: str, metrics: Iterable[str] = (RATE,)) -> Compared:
    """What changed from A to B.

    Raises:
        ConfigError: A result cannot be read, they have no cell in common, or no such metric.
    """
    one, other = _matched(a), _matched(b)
    common = [key for key in one if key in other]
    if not common:
        raise ConfigError(f"{a}, {b}: no cell is in both")
    found: list[Difference] = []
    doubt: list[str] = []
    for metric in dict.fromkeys(metrics):
        rows = [_of(key, one[key], other[key], metric) for key in common]
        if metric == RATE:
            rows, facts = _with_intervals(rows, common, (a, one), (b, other))
            doubt = [_doubt(trace, known) for trace, known in facts.items()]
        found += rows
    return Compared(
        differences=found,
        only_in_a=[_named(kept.cell) for key, kept in one.items() if key not in other],
        only_in_b=[_named(kept.cell) for key, kept in other.items() if key not in one],
        doubt=doubt,
    )


def _doubt(trace: str, facts: RequestFacts) -> str:
    return f"{trace}: {LEVEL:.0%} intervals by {DRAWS:,} paired resamplings of {told(facts)}."


_Key = tuple[object, ...]


@dataclass(frozen=True)
class _Kept:
    cell: Cell
    name: str | None


def _matched(where: str) -> dict[_Key, _Kept]:
    cells = read_cells(where)
    names: Sequence[str | None] = read_names(where) or [None] * len(cells)
    return {_key(cell): _Kept(cell, name) for cell, name in zip(cells, names, strict=True)}


def _key(cell: Cell) -> _Key:
    place = cell.trace, cell.mode, cell.block_size, cell.load, cell.arrival_seed
    return *place, cell.capacity_blocks, cell.policy


def _named(cell: Cell) -> str:
    """All that cells are matched by."""
    size = "any capacity" if cell.capacity_blocks is None else f"{cell.capacity_blocks} blocks"
    load = f", load {cell.load:g}" if cell.load != 1 else ""
    seed = f", arrival seed {cell.arrival_seed}" if cell.arrival_seed else ""
    where = f"{cell.trace} {cell.mode} {cell.policy} {size}"
    return f"{where} of {cell.block_size} tokens{load}{seed}"


def _some(cells: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
    return f"{'; '.join(cells[:NAMED])}{more}"


def _of(key: _Key, one: _Kept, other: _Kept, metric: str) -> Difference:
    return Difference(
        trace=one.cell.trace,
        mode=one.cell.mode,
        policy=one.cell.policy,
        capacity_blocks=one.cell.capacity_blocks,
        metric=metric,
        before=figure(one.cell, metric),
        after=figure(other.cell, metric),
    )


def figure(cell: Cell, metric: str) -> float:
    """A number of a cell, by its name in JSON or among its metrics.

    Raises:
        ConfigError: There is none of that name.
    """
    value = cell.metrics[metric] if metric in cell.metrics else getattr(cell, metric, "")
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        every = [*Cell.__struct_fields__, *cell.metrics]
        raise ConfigError(f"metric {metric}: no number of a cell{did_you_mean(metric, every)}")
    return float(value)


def _with_intervals(
    rows: list[Difference],
    keys: Sequence[_Key],
    a: tuple[str, Mapping[_Key, _Kept]],
    b: tuple[str, Mapping[_Key, _Kept]],
) -> tuple[list[Difference], dict[str, RequestFacts]]:
    """The same with intervals where both results keep outcomes of equally many requests; and what
    their traces say of these.
    """
    pairs: dict[int, tuple[RequestOutcomes, RequestOutcomes]] = {}
    facts: dict[str, RequestFacts] = {}
    for at, key in enumerate(keys):
        one, other = _outcomes(*a, key), _outcomes(*b, key)
        trace = rows[at].trace
        if one is None or other is None or len(one.hit_tokens) != len(other.hit_tokens):
            continue
        if trace not in facts:
            known = read_facts(Path(a[0]), trace)
            if known is None or len(known.input_tokens) != len(one.hit_tokens):
                continue
            facts[trace] = known
        pairs[at] = one, other
    if not pairs:
        return rows, {}
    estimates, drawn = [], []
    for trace, known in facts.items():
        places = [at for at in pairs if rows[at].trace == trace]
        hits = [pair.hit_tokens for at in places for pair in pairs[at]]
        rates = drawn_rates(hits, known.input_tokens, known.together)
        estimates += [rows[at].change for at in places]
        drawn.append(rates[:, 1::2] - rates[:, ::2])
    order = [at for trace in facts for at in pairs if rows[at].trace == trace]
    made = simultaneous(np.array(estimates), np.hstack(drawn))
    filled = list(rows)
    for i, at in enumerate(order):
        filled[at] = msgspec.structs.replace(
            rows[at], low=float(made.low[i]), high=float(made.high[i]), p=float(made.p[i])
        )
    return filled, facts


def _outcomes(where: str, kept: Mapping[_Key, _Kept], key: _Key) -> RequestOutcomes | None:
    name = kept[key].name
    if name is None:
        return None
    try:
        return read_outcomes(Path(where), name)
    except (OSError, ValueError):
        return None


def table(rows: Sequence[Difference]) -> Table:
    """For people."""
    header = ["trace, mode, policy", "blocks", "metric", "A", "B", "B - A", "interval", "real"]
    made = Table("", header)
    for row in rows:
        rate = row.metric.endswith("rate") or abs(row.before) <= 1
        form = ".4f" if rate else ",.6g"
        interval = "-" if row.low is None else f"[{row.low:+.4f}, {row.high:+.4f}]"
        real = {None: "?", True: "yes", False: "no"}[row.real]
        made.rows.append(
            [
                f"{row.trace} {row.mode} {row.policy}",
                "any" if row.capacity_blocks is None else str(row.capacity_blocks),
                row.metric,
                f"{row.before:{form}}",
                f"{row.after:{form}}",
                f"{row.change:+{form}}",
                interval,
                real,
            ]
        )
    return made


def sentence(rows: Sequence[Difference]) -> str:
    """The answer in a line."""
    told = [row for row in rows if row.metric == RATE]
    real = [row for row in told if row.real]
    untested = sum(row.real is None for row in told)
    doubt = f"; {untested} without intervals, since a result keeps no requests" if untested else ""
    if not real:
        same = all(row.change == 0 for row in told)
        what = "nothing changed" if same else "no difference is real"
        return f"{what} in {len(told)} cells{doubt}"
    most = max(real, key=lambda row: abs(row.change))
    word = "better" if most.change > 0 else "worse"
    low, high = 100 * (most.low or 0), 100 * (most.high or 0)
    return (
        f"B differs from A in {len(real)} of {len(told)} cells; most in {most}, where it is {word} "
        f"by {abs(100 * most.change):.2f} points [{low:+.2f}, {high:+.2f}]{doubt}"
    )
