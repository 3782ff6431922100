"""docs/reference/zoo.md, made of a record of `perf.zoo`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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

On [conversation](#conversation), [synthetic](#synthetic) and [agent](#agent);
[kvframe's own beside the others](#kvframes-own-beside-the-others); [beside the sources'
figures](#beside-the-sources-figures); [beside libcachesim](#beside-libcachesim).

<!-- Written by `python -m perf.zoo --libcachesim PYTHON`; do not edit. -->

Every installed eviction policy on the three [traces that ship with kvframe](traces.md), from a
cold cache, in engine mode: full blocks of 512 tokens, and the last token of a prompt is always
computed. `python -m perf.zoo --libcachesim PYTHON` (a Python that imports libcachesim) writes this
page from what `kvframe bench run --policy all --trace TRACE --capacity LIST` measures; the figures
behind it are in `perf/results` ({date}, kvframe {kvframe}). All options are at their defaults.
[policies.md](policies.md) says what each policy does,
[default-policy.md](../explanation/default-policy.md) how `foresight` works, and
[served.md](served.md) what they are worth to users of a simulated server. Compare figures within a
column. Policies that need what these traces lack (sessions in two of the three, priorities,
agent graphs) show only what they do without it.

Two objectives are shown: hit tokens, and compute saved, which are the hit tokens weighted by what
it takes to compute them ([metrics](bench.md#metrics)): *30B coder* is the published cost of a
block, 865 + 2 p, and *position* that of attention alone, p + 1. A policy that weighs work
(`attention_blocks`) is told the cost that it is ranked by.
"""

OBJECTIVES = """\
Both objectives, means over the capacities in percent, and the rank of each among the policies that
an engine can run:
"""

SOURCES = """\
## Beside the sources' figures

What the papers say of their own traces, which do not ship, and what holds here: the least and the
most over the capacities, in points over lru. Compute saved is by the 30B coder's cost.
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
    plain = [row for row in record["rows"] if ":" not in row["policy"]]
    for trace in traces:
        rows = [row for row in plain if row["trace"] == trace]
        parts += [f"## {trace}\n", "Token hit rate in percent:\n", rates(rows, "hit") + "\n"]
        parts += ["Gap to the optimum closed, (policy - lru) / (opt - lru), in percent"]
        parts[-1] += f" (- where the gap is below {NO_GAP:.2%} of the tokens):\n"
        parts += [gaps(rows) + "\n"]
        told = {
            name: told_costs([row for row in record["rows"] if row["trace"] == trace], name)
            for name in SAVED
        }
        parts += ["Compute saved in percent, 30B coder:\n", rates(told["coder"], "coder") + "\n"]
        parts += [OBJECTIVES, objectives({"hit": rows, **told}) + "\n"]
        parts += [alike(pair for of, *pair in record["same"] if of == trace)]
    parts += [default_policy(plain), SOURCES, sources(record["rows"]) + "\n"]
    if record["beside"]:
        parts += [BESIDE.format(peer=" ".join(record["versions"]["peers"]))]
        for trace in traces:
            rows = [row for row in record["beside"] if row["trace"] == trace]
            parts += [f"### {trace}\n", beside(rows) + "\n"]
    return "\n".join(parts).rstrip() + "\n"


def told_costs(rows: Sequence[Row], objective: str) -> list[Row]:
    """One row a policy and capacity: where it weighs work, told the cost of that objective."""
    mark = f":{OPTION}={BLOCKS[objective]}"
    told = {row["policy"].removesuffix(mark) for row in rows if row["policy"].endswith(mark)}
    return [
        {**row, "policy": row["policy"].removesuffix(mark)}
        for row in rows
        if row["policy"].endswith(mark) or (":" not in row["policy"] and row["policy"] not in told)
    ]


def objectives(rows: Mapping[str, Sequence[Row]]) -> str:
    """Means over the capacities, ranked by each objective; the order is that of compute saved."""
    means: dict[str, dict[str, float]] = {}
    for objective, measured in rows.items():
        found: dict[str, list[float]] = defaultdict(list)
        for row in measured:
            found[row["policy"]].append(row[objective])
        means[objective] = {policy: sum(some) / len(some) for policy, some in found.items()}
    ranks = {objective: ranked(of) for objective, of in means.items()}
    order = sorted(means["coder"], key=lambda name: (name in BOUNDS, -means["coder"][name]))
    lines = []
    for policy in order:
        line = [f"`{policy}`"]
        for objective, of in means.items():
            line += [f"{100 * of[policy]:.2f}", str(ranks[objective].get(policy, "-"))]
        lines.append(line)
    head = ["policy", "hit tokens", "rank", "position", "rank", "30B coder", "rank"]
    return table(head, lines)


def ranked(means: Mapping[str, float]) -> dict[str, int]:
    """1 for the best that an engine can run; equal means share a rank."""
    online = {policy: mean for policy, mean in means.items() if policy not in BOUNDS}
    return {
        policy: 1 + sum(other > mean for other in online.values())
        for policy, mean in online.items()
    }


def alike(pairs: Iterable[Sequence[str]]) -> str:
    """A sentence for each group of policies that evicted the same blocks at every capacity."""
    groups: list[list[str]] = []
    for pair in pairs:
        group = next((group for group in groups if {*group} & {*pair}), None)
        if group is None:
            groups.append(list(pair))
        else:
            group += [name for name in pair if name not in group]
    lines = [
        ", ".join(f"`{name}`" for name in group[:-1])
        + f" and `{group[-1]}` evicted the same blocks throughout."
        for group in groups
    ]
    return "\n".join([*lines, ""] if lines else [])


def sources(rows: Sequence[Row]) -> str:
    """Published figures, and by how much the policy differs from another here."""
    cells = {(row["trace"], row["policy"], row["capacity"]): row for row in rows}
    traces = list(dict.fromkeys(row["trace"] for row in rows))

    def beside_of(policy: str, objective: str, other: str = "lru") -> list[str]:
        ends = []
        for trace in traces:
            points = [
                100 * (row[objective] - cells[trace, other, size][objective])
                for (of, name, size), row in cells.items()
                if (of, name) == (trace, policy) and (trace, other, size) in cells
            ]
            ends.append(f"{min(points):+.1f} to {max(points):+.1f}")
        return ends

    coder = f":{OPTION}={BLOCKS['coder']}"
    lines = [
        [what, theirs, *beside_of(*ours)]
        for what, theirs, ours in (
            (
                "RandomCompute (2609.28870), compute saved",
                "+10.4 over LRU at 24 GiB (63.8 %)",
                (f"random-compute{coder}", "coder"),
            ),
            (
                "the same beside the Belady that hits most",
                "more",
                (f"random-compute{coder}", "coder", "opt"),
            ),
            (
                "PartialNodeRandomCompute (2609.28870), compute saved",
                "+0.9 with 128 nodes over 32",
                (f"partial-node-random-compute{coder}", "coder"),
            ),
            (
                "RandomQuickDemotion (2609.28870), hit tokens",
                "depends on the trace",
                ("random-quick-demotion", "hit"),
            ),
            (
                "AsymCache (2606.02964) as 2609.28870 has it, hit tokens",
                "about LRU or a little worse",
                ("asymcache", "hit"),
            ),
            (
                "RR-Evict (2609.32278), hit tokens",
                "P99 TTFT up to -75 %; hits not given",
                ("rr-evict", "hit"),
            ),
            (
                "Belady (2609.28870), hit tokens",
                "+8 over LRU at 24 GiB",
                ("opt-forced", "hit"),
            ),
        )
    ]
    return table(["source", "its figure", *traces], lines)


def pivot(
    rows: Sequence[Row],
    text: Callable[[Row], str],
    but: Sequence[str] = (),
    objective: str = "hit",
) -> str:
    """Policies down, best mean first and bounds last; capacities across."""
    cells: dict[str, dict[int | None, Row]] = defaultdict(dict)
    for row in rows:
        if row["policy"] not in but:
            cells[row["policy"]][row["capacity"]] = row
    sizes = sorted({row["capacity"] for row in rows if row["capacity"] is not None})

    def rank(policy: str) -> tuple[bool, float]:
        hits = [row[objective] for row in cells[policy].values()]
        return policy in BOUNDS, -sum(hits) / len(hits)

    lines = []
    for policy in sorted(cells, key=rank):
        of = cells[policy]
        found = [of.get(size, of.get(None)) for size in sizes]
        lines.append([f"`{policy}`", *("-" if row is None else text(row) for row in found)])
    return table(["policy", *(f"{size:,}" for size in sizes)], lines)


def rates(rows: Sequence[Row], objective: str) -> str:
    """The best online policy of a column in bold."""
    best: dict[int, float] = defaultdict(float)
    for row in rows:
        if row["policy"] not in BOUNDS:
            best[row["capacity"]] = max(best[row["capacity"]], row[objective])

    def text(row: Row) -> str:
        value = f"{100 * row[objective]:.2f}"
        online = row["policy"] not in BOUNDS
        return f"**{value}**" if online and row[objective] == best[row["capacity"]] else value

    return pivot(rows, text, objective=objective)


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
