"""docs/reference/served.md, made of a record of `perf.served`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvframe.bench.policies import BASELINE
from kvframe.bench.server.verdict import ALIKE
from perf.table import short, table

Row = Mapping[str, Any]
BOUND = "opt"
OURS = "foresight"
RANKED = 10
WORSE = 0.01
"""By how much of lru's a percentile may be longer: the bar of `foresight`."""

HEAD = """\
# Policies on the simulated server

<!-- Written by `python -m perf.served --save`; do not edit. -->

What an eviction policy is worth to users: the [simulated server](../how-to/simulate-a-server.md) on
the traces that ship, with step times of profile `{profile}`, at a quarter, half and full load of
each trace. {tried}
and `lru` and `mq` each with the admission policies `second-use` and `frequency`. Hit rates without
a clock are in [the zoo](zoo.md).

Changes are against lru; TTFT is the time to the first token. In brackets is what a paired bootstrap
over twenty batches of consecutive requests leaves open, at 95 % for all policies of a cell at once.
Where the mean TTFT is of minutes, a queue outlasts a batch, and the interval is too narrow. P50,
P99 and throughput are of one run. *Best* is the policy with the shortest mean TTFT of those whose
interval excludes lru; where there is none, of all; in a saturated cell, the one with the highest
throughput. The last column says whether eviction matters:

- *yes*: the best is told apart from lru, and more than {alike:.0%} ahead.
- *little*: it is told apart, but no more than {alike:.0%} ahead.
- *not told apart*: no policy that an engine can run is, but `opt`, which knows what comes, is.
- *no longer*: neither they nor `opt` are.
- *saturated*: under lru the server works for more than a tenth of the trace's time after the last
  arrival. Then the times are those of the queue, and throughput is what counts.
"""


TRIED = {
    False: "Every installed policy that an engine can run was tried, but for copies of lru,",
    True: "The ten policies of the highest mean in the zoo were tried beside lru,",
}
"""Whether only the leading ones were."""


class Judged(NamedTuple):
    """A trace, capacity and load: its policies by name, and whether eviction matters there."""

    of: Mapping[str, Row]
    best: Row
    verdict: str

    @property
    def matters(self) -> bool:
        return self.verdict == "yes"

    def change(self, policy: str, figure: str = "mean") -> float:
        """A figure of a policy over lru's, less 1."""
        return float(self.of[policy][figure] / self.of[BASELINE][figure] - 1)


def judged(rows: Sequence[Row]) -> list[Judged]:
    """Each cell of a record."""
    cells: dict[tuple[str, int, float], dict[str, Row]] = {}
    for row in rows:
        place = row["trace"], row["capacity"], row["load"]
        cells.setdefault(place, {})[row["policy"]] = row
    return [_judged(of) for of in cells.values()]


def _judged(of: Mapping[str, Row]) -> Judged:
    lru, bound = of[BASELINE], of[BOUND]
    online = [row for name, row in of.items() if name != BOUND]
    best = min(online, key=lambda row: (not _shorter(row), row["mean"]))
    if lru["saturated"]:
        verdict, best = "saturated", max(online, key=lambda row: row["requests_per_second"])
    elif _shorter(best):
        verdict = "yes" if _much(best, lru) else "little"
    elif _shorter(bound) and _much(bound, lru):
        verdict = "not told apart"
    else:
        verdict = "no longer"
    return Judged(of, best, verdict)


def _shorter(row: Row) -> bool:
    return bool(row["mean_high"] < 0)


def _much(row: Row, lru: Row) -> bool:
    return bool(row["mean"] < (1 - ALIKE) * lru["mean"])


def page(record: Row) -> str:
    """The whole page of a record of `perf.served`."""
    parts = [HEAD.format(profile=record["profile"], alike=ALIKE, tried=TRIED[record["leading"]])]
    cells = judged(record["rows"])
    for trace in dict.fromkeys(cell.best["trace"] for cell in cells):
        lines = [line(cell) for cell in cells if cell.best["trace"] == trace]
        parts += [f"## {trace}\n", table(COLUMNS, lines) + "\n"]
    parts += ["## By policy\n", by_policy(cells), "\n## foresight\n", ours(cells)]
    return "\n".join(parts)


COLUMNS = (
    "blocks, load",
    "lru: hit, %",
    "TTFT mean, s",
    "P50",
    "P99",
    "req/s",
    "foresight: hit, points",
    "TTFT mean",
    "P50",
    "P99",
    "req/s",
    "best",
    "opt: TTFT mean",
    "req/s",
    "does eviction matter",
)


def line(cell: Judged) -> list[str]:
    """A row of the table."""
    lru, best, own, bound = cell.of[BASELINE], cell.best, cell.of[OURS], cell.of[BOUND]
    points = [100 * (own["hit"] - lru["hit"]), 100 * own["hit_low"], 100 * own["hit_high"]]

    def changed(row: Row, figure: str) -> str:
        return percent(cell.change(row["policy"], figure))

    def mean(row: Row) -> str:
        return f"{changed(row, 'mean')} [{percent(row['mean_low'])}, {percent(row['mean_high'])}]"

    def told(row: Row) -> str:
        if row is lru:
            return "`lru`"
        rate = changed(row, "requests_per_second")
        figure = f"{rate} req/s" if cell.verdict == "saturated" else mean(row)
        return f"`{row['policy']}` {figure}"

    return [
        f"{lru['capacity']:,}, {lru['load']:g}",
        f"{100 * lru['hit']:.2f}",
        *(short(lru[name]) for name in ("mean", "p50", "p99", "requests_per_second")),
        f"{points[0]:+.2f} [{points[1]:+.2f}, {points[2]:+.2f}]",
        mean(own),
        *(changed(own, name) for name in ("p50", "p99", "requests_per_second")),
        told(best),
        changed(bound, "mean"),
        changed(bound, "requests_per_second"),
        cell.verdict,
    ]


def percent(change: float) -> str:
    """A change; none has no sign."""
    text = f"{change:+.1%}"
    return text[1:] if float(text[:-1]) == 0 else text


def by_policy(cells: Sequence[Judged]) -> str:
    """How often eviction matters, and there the best policies by their mean change."""
    counts: dict[str, int] = {}
    for cell in cells:
        counts[cell.verdict] = counts.get(cell.verdict, 0) + 1
    told = ", ".join(f"*{verdict}* in {count}" for verdict, count in counts.items())
    said = f"Of {len(cells)} cells: {told}.\n"
    those = [cell for cell in cells if cell.matters]
    if not those:
        return said
    names = [name for name in those[0].of if name not in (BOUND, BASELINE)]

    full = [cell for cell in cells if cell.verdict == "saturated"]

    def mean(policy: str) -> float:
        return sum(cell.change(policy) for cell in those) / len(those)

    def rate(policy: str) -> float:
        found = [cell.change(policy, "requests_per_second") for cell in full]
        return sum(found) / max(len(found), 1)

    lines: list[list[str]] = []
    for name in sorted(names, key=mean):
        rows = [cell.of[name] for cell in those]
        if len(lines) >= RANKED and name != OURS:
            continue
        lines.append(
            [
                f"`{name}`",
                percent(mean(name)),
                str(sum(row["mean_high"] < 0 for row in rows)),
                str(sum(row["mean_low"] > 0 for row in rows)),
                *(
                    f"{max(cell.change(name, figure) for cell in those):+.1%}"
                    for figure in ("mean", "p50", "p99")
                ),
                percent(rate(name)),
            ]
        )
    head = ["policy", "mean TTFT", "shorter", "longer", "worst mean", "worst P50", "worst P99"]
    head.append("req/s where saturated")
    intro = (
        f"\nThe ten best where it is *yes*, {len(those)} cells: the mean of the changes of the "
        "mean TTFT; in how many cells the interval says shorter or longer; the worst cell. "
        f"Beside them the mean change of throughput in the {len(full)} saturated cells.\n"
    )
    return said + intro + "\n" + table(head, lines)


def ours(cells: Sequence[Judged]) -> str:
    """Where foresight's times are longer than lru's by more than its bar lets them."""
    told = []
    for of, where in (
        ([cell for cell in cells if cell.verdict != "saturated"], "not saturated"),
        ([cell for cell in cells if cell.verdict == "saturated"], "saturated"),
    ):
        for figure in ("mean", "p50", "p99"):
            worse = {
                _place(cell): cell.change(OURS, figure)
                for cell in of
                if cell.change(OURS, figure) > WORSE
            }
            some = ", ".join(f"{place} {change:+.1%}" for place, change in worse.items())
            told.append([f"{figure.capitalize()}, {where}", f"{len(worse)} of {len(of)}", some])
    head = ["TTFT", f"more than {WORSE:.0%} longer than under lru", "where"]
    return table(head, told) + "\n"


def _place(cell: Judged) -> str:
    return f"{cell.best['trace']} {cell.best['capacity']:,} at {cell.best['load']:g}"
