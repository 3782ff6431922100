"""docs/reference/zoo.md, made of a record of `perf.zoo`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvframe.policies.builtin import BUILTIN
from perf.cells import small
from perf.table import table

Row = Mapping[str, Any]
BOUNDS = tuple(policy.name for policy in BUILTIN if policy.replay_only)
"""Policies that no engine can run: they know what comes."""

SAVED = {"position": "compute_saved_position", "coder": "compute_saved_30b"}
"""Objectives beside hit tokens, and the metrics of `kvframe bench run` that they are."""
OPTION = "attention_blocks"
BLOCKS = {"position": 1, "coder": 14}
"""The option by which a policy weighs work, and its value for each objective: blocks are of 512."""

NO_GAP = 0.0005
"""A smaller gap between lru and opt, as a share of the tokens, is nothing to measure by."""

HEAD = """\
# The zoo: every policy on every trace

<!-- Written by `python -m perf.zoo --libcachesim PYTHON`; do not edit. -->

Every installed eviction policy on the three [traces that ship with kvframe](traces.md), from a
cold cache, in engine mode: full blocks of 512 tokens, and the last token of a prompt is always
computed. `python -m perf.zoo --libcachesim PYTHON` (a Python that imports libcachesim) writes this
page from what `kvframe bench run --policy all --trace TRACE --capacity LIST` measures; the figures
behind it are in `perf/results` ({date}, kvframe {kvframe}). All options are at their defaults.
[policies.md](policies.md) says what each policy does, and
[default-policy.md](../explanation/default-policy.md) how `foresight` works. Compare figures within
a column. Policies that need what these traces lack (sessions in two of the three, priorities,
agent graphs) show only what they do without it.
"""

BESIDE = """\
## Beside libcachesim

The share of block accesses that hit, in percent: {peer} on the stream of blocks, one at a time
and each on its own; kvframe's policy of that name on the same stream of single blocks; and
kvframe's on the prompts themselves, in trace mode (every id is a block).

The first and the second figure differ where the policies' rules differ.
[policies.md](policies.md#beside-libcachesim) names the difference for each such policy; for all
others the two are equal to the last access. The second and the third differ by what a KV cache
is: a block is evicted only after all that follow it, a request's own blocks are safe from each
other, and a hit ends at the first missing block. Policies that go by recency hardly notice: a
prompt's blocks are used together, and its tail is evicted first. Policies that go by uses gain,
because they no longer tear the heads off prefixes. Policies that walk a queue in order of insertion
(`clock`, `s3-fifo`) lose on growing sessions: the only leaf of a session is the block that came
last, so the whole of a finished session stays until the queue gets to it.
"""


def page(record: Row) -> str:
    """The whole page of a record of `perf.zoo`."""
    date, build = record["date"][:10], record["versions"]["kvframe"]
    parts = [HEAD.format(date=date, kvframe=build)]
    traces = list(dict.fromkeys(row["trace"] for row in record["rows"]))
    for trace in traces:
        rows = [row for row in record["rows"] if row["trace"] == trace]
        parts += [f"## {trace}\n", "Token hit rate in percent:\n", hit_rates(rows) + "\n"]
        parts += ["Gap to the optimum closed, (policy - lru) / (opt - lru), in percent"]
        parts[-1] += f" (- where the gap is below {NO_GAP:.2%} of the tokens):\n"
        parts += [gaps(rows) + "\n"]
    parts += [default_policy(record["rows"])]
    if record["beside"]:
        parts += [BESIDE.format(peer=" ".join(record["versions"]["peers"]))]
        for trace in traces:
            rows = [row for row in record["beside"] if row["trace"] == trace]
            parts += [f"### {trace}\n", beside(rows) + "\n"]
    return "\n".join(parts).rstrip() + "\n"


def pivot(rows: Sequence[Row], text: Callable[[Row], str], but: Sequence[str] = ()) -> str:
    """Policies down, best mean first and bounds last; capacities across."""
    cells: dict[str, dict[int | None, Row]] = defaultdict(dict)
    for row in rows:
        if row["policy"] not in but:
            cells[row["policy"]][row["capacity"]] = row
    sizes = sorted({row["capacity"] for row in rows if row["capacity"] is not None})

    def rank(policy: str) -> tuple[bool, float]:
        hits = [row["hit"] for row in cells[policy].values()]
        return policy in BOUNDS, -sum(hits) / len(hits)

    lines = []
    for policy in sorted(cells, key=rank):
        of = cells[policy]
        found = [of.get(size, of.get(None)) for size in sizes]
        lines.append([f"`{policy}`", *("-" if row is None else text(row) for row in found)])
    return table(["policy", *(f"{size:,}" for size in sizes)], lines)


def hit_rates(rows: Sequence[Row]) -> str:
    """The best online policy of a column in bold."""
    best: dict[int, float] = defaultdict(float)
    for row in rows:
        if row["policy"] not in BOUNDS:
            best[row["capacity"]] = max(best[row["capacity"]], row["hit"])

    def text(row: Row) -> str:
        value = f"{100 * row['hit']:.2f}"
        online = row["policy"] not in BOUNDS
        return f"**{value}**" if online and row["hit"] == best[row["capacity"]] else value

    return pivot(rows, text)


def gaps(rows: Sequence[Row]) -> str:
    """Without the bounds, and where there is a gap to speak of."""
    hits = {(row["policy"], row["capacity"]): row["hit"] for row in rows}

    def text(row: Row) -> str:
        gap = hits["opt", row["capacity"]] - hits["lru", row["capacity"]]
        return "-" if gap < NO_GAP else f"{100 * row['gap_closed']:+.1f}"

    return pivot(rows, text, but=("lru", *BOUNDS))


def default_policy(rows: Sequence[Row]) -> str:
    """Kvframe's own beside lru and beside the best online policy of each cell."""
    cells: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["policy"] not in BOUNDS:
            cells[row["trace"], row["capacity"]][row["policy"]] = 100 * row["hit"]
    lines, gains = [], {}
    for (trace, size), of in cells.items():
        best = max(of, key=lambda policy: of[policy])
        gains[trace, size] = of["foresight"] - of["lru"]
        figures = [of["lru"], of["foresight"], gains[trace, size]]
        behind = of["foresight"] - of[best]
        told = [f"{figure:.2f}" for figure in figures]
        lines.append([f"{trace}, {size:,}", *told, f"`{best}` {of[best]:.2f}", f"{behind:.2f}"])
    head = ["trace, blocks", "lru", "foresight", "gain", "best online", "behind it"]
    half = [gain for (trace, size), gain in gains.items() if size in small(trace)]
    verdict = (
        f"The mean gain over lru is {sum(half) / len(half):+.2f} points in the smaller half of "
        f"each trace's capacities and {sum(gains.values()) / len(gains):+.2f} over all; the least "
        f"is {min(gains.values()):+.2f}."
    )
    return "\n".join(["## kvframe's own beside the others\n", table(head, lines), "", verdict, ""])


def beside(rows: Sequence[Row]) -> str:
    """A line a policy; for each capacity libcachesim, single blocks, prefixes."""
    sizes = sorted({row["capacity"] for row in rows})
    cells: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in rows:
        cells[row["policy"]][row["capacity"]] = row
    lines = []
    for policy, of in cells.items():
        theirs = next(iter(of.values()))["theirs"]
        figures = [
            " / ".join(f"{100 * of[size][way]:.2f}" for way in ("libcachesim", "single", "prefix"))
            for size in sizes
        ]
        lines.append([f"{theirs}, `{policy}`", *figures])
    return table(["libcachesim, kvframe", *(f"{size:,}" for size in sizes)], lines)
