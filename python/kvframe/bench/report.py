"""The report of a run as titled tables; `render` formats them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from statistics import mean

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.comparison import Comparison
from kvframe.bench.field import Rows
from kvframe.bench.policies import BASELINE, OPTIMUM
from kvframe.bench.verdict import Verdict

NOTES = (
    "Hit: the tokens of a request's longest cached prefix, counted once, from a cold cache.",
    "Token-weighted: hit tokens / input tokens. Block-weighted: hit blocks / blocks. "
    "Request mean: the mean of each request's own hit / input.",
    "Compute saved: hit tokens weighted by their position, over prompt tokens likewise. Session "
    "p50, p90: percentiles of the sessions' (or requests') own hit / input.",
    "After-gap: tokens that were cached behind the first missing block; they serve nobody and are "
    "in no hit rate.",
    "trace mode: every id is a block, a partial tail too, and a whole prompt may hit. engine mode: "
    "the manager itself; full blocks only, the last token is always computed. timed mode: the same "
    "by the clock, beside sequences that still run.",
)


TOLD_GAP = 0.005
"""Of the prompt tokens: tables write no share of a smaller gap. They have rates to 0.0001, so that
such a share could not be told from them to 2 %, and a policy far behind lru would close -16,000 %.
"""

_SHOWN = ("compute_saved_position", "session_hit_rate_p50", "session_hit_rate_p90")
"""Metrics among the details."""


@dataclass
class Table:
    """A title, a header and rows of text; the first column is text, the others are numbers."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)


def filled(table: Table) -> Table:
    """The same without columns of nothing but dashes."""
    shown = [at for at in range(len(table.header)) if any(row[at] != "-" for row in table.rows)]
    header = [table.header[at] for at in shown]
    return Table(table.title, header, [[row[at] for at in shown] for row in table.rows])


@dataclass
class Section:
    """One trace in one mode: a heading, its tables, its verdict and what that rests on."""

    heading: str
    tables: list[Table]
    verdict: str
    doubt: str = ""


Group = tuple[str, str, int, float]
"""See `Plan.group`."""


def grouped(rows: Rows) -> dict[Group, dict[Plan, Cell]]:
    """The rows by what is compared with each other."""
    groups: dict[Group, dict[Plan, Cell]] = defaultdict(dict)
    for plan, cell in rows.items():
        groups[plan.group][plan] = cell
    return dict(groups)


def sections(
    rows: Rows, verdicts: Mapping[Group, Verdict], *, brief: bool = False
) -> list[Section]:
    """The report of all finished rows, a section for each trace and mode.

    ``brief`` shows the details at the verdict's capacity only, not at each one.
    """
    return [_section(group, verdicts[place], brief) for place, group in grouped(rows).items()]


def _section(rows: Rows, verdict: Verdict, brief: bool) -> Section:
    plan, cell = next(iter(rows.items()))
    trace = plan.source.trace
    load = f", load {plan.source.load:g}" if plan.source.load != 1 else ""
    seeds = len(verdict.arrival_seeds)
    drawn = f", {seeds} arrival seeds" if seeds > 1 else ""
    heading = (
        f"{plan.source.name}: {plan.mode} mode{load}{drawn}, blocks of {cell.block_size} tokens, "
        f"{cell.requests:,} requests, {cell.input_tokens:,} input tokens, "
        f"{cell.block_accesses:,} block accesses (parsed in {trace.parse_seconds:.2f} s, "
        f"prepared in {cell.prepare_seconds:.2f} s)"
    )
    capacities = list(dict.fromkeys(p.capacity for p in rows if p.capacity is not None))
    tables = [_pivot("Token hit rate by capacity in blocks", rows, capacities, _token_rate)]
    online = {plan: cell for plan, cell in rows.items() if not plan.policy.replay_only}
    closed = _pivot(
        "Gap closed to optimal, (policy - lru) / (opt - lru)",
        online,
        capacities,
        partial(_gap, _wide(rows)),
    )
    if any(text != "-" for row in closed.rows for text in row[1:]):
        tables.append(closed)
    if any(cell.mean_ttft_seconds is not None for cell in rows.values()):
        title = "Mean seconds from arrival to the first token"
        tables.append(_pivot(title, rows, capacities, _ttft))
    if verdict.comparisons:
        tables.append(_against_lru(verdict))
    shown: list[int | None] = list(capacities) or [None]
    if brief and verdict.capacity is not None:
        shown = [verdict.capacity]
    first = {p: c for p, c in rows.items() if p.source.arrival_seed == verdict.arrival_seeds[0]}
    own = [*(_details(first, capacity) for capacity in shown), _misses(first, shown)]
    for table in own if seeds > 1 else ():
        table.title += f" (arrival seed {verdict.arrival_seeds[0]} alone)"
    tables += [table for table in own if table.rows]
    return Section(heading, tables, verdict.sentence, verdict.doubt)


def _pivot(
    title: str, rows: Rows, capacities: list[int], text: Callable[[list[Cell]], str]
) -> Table:
    """Policies down, capacities across; the bound, which has no capacity, fills its whole row."""
    by_policy: dict[str, dict[int | None, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for plan, cell in rows.items():
        by_policy[plan.label][plan.capacity].append(cell)
    columns: list[int | None] = list(capacities) or [None]
    table = Table(title, ["policy", *("any" if size is None else f"{size:,}" for size in columns)])
    for label, cells in by_policy.items():
        found = [cells.get(size, cells.get(None)) for size in columns]
        table.rows.append([label, *("-" if not some else text(some) for some in found)])
    return table


def _against_lru(verdict: Verdict) -> Table:
    """What each policy is better or worse by: on the mean, and where that is clearest."""
    several, compared = len(verdict.sizes) > 1, len(verdict.comparisons)
    at_once = (
        f"intervals for all {compared} comparisons at once" if compared > 1 else "its interval"
    )
    header = ["policy", *(["on the mean"] if several else []), "most at", "blocks"]
    header += ["least at", "blocks"] if several else []
    table = Table(f"Points from lru, with {at_once} (* real)", header)
    for label in verdict.field:
        rows = [r for r in verdict.comparisons if (r.policy, r.baseline) == (label, BASELINE)]
        sized = sorted(
            (r for r in rows if r.capacity_blocks is not None), key=lambda r: r.difference
        )
        if not sized:
            continue
        mean = [_points(r) for r in rows if r.capacity_blocks is None]
        ends = [sized[-1], sized[0]] if several else [sized[0]]
        cells = [text for row in ends for text in (_points(row), f"{row.capacity_blocks:,}")]
        table.rows.append([label, *mean, *cells])
    return table


def _points(row: Comparison) -> str:
    return f"{row.points.removesuffix(' points')}{'*' if row.real else ' '}"


def _misses(rows: Rows, capacities: list[int | None]) -> Table:
    """Why prompt tokens were computed, in shares of all of them."""
    table = Table(
        "Why prompt tokens were computed, in % of all of them",
        ["policy, blocks", "hit", "cold", "granularity", "capacity", "pinned", "policy"],
    )
    for plan, cell in rows.items():
        if cell.misses is None or plan.capacity not in capacities:
            continue
        parts = [cell.hit_tokens, *cell.misses.values()]
        shares = [f"{100 * part / max(cell.input_tokens, 1):.1f}" for part in parts]
        table.rows.append([f"{plan.label}, {plan.capacity:,}", *shares])
    return table


def _details(rows: Rows, capacity: int | None) -> Table:
    size = "any capacity" if capacity is None else f"{capacity:,} blocks"
    each = "session" if any((plan.source.facts.session >= 0).any() for plan in rows) else "request"
    table = Table(
        f"At {size}: the three hit rates apart, and what they cost",
        [
            "policy",
            "token-weighted",
            "block-weighted",
            "request mean",
            "after-gap tokens",
            "compute saved",
            f"{each} p50",
            "p90",
            "evictions",
            "M block accesses/s",
        ],
    )
    for plan, cell in rows.items():
        if plan.capacity in (capacity, None):
            table.rows.append([plan.label, *_detail(cell)])
    return table


def _detail(cell: Cell) -> list[str]:
    return [
        _token_rate([cell]),
        _rate(cell.block_hit_rate),
        _rate(cell.mean_request_hit_rate),
        f"{cell.after_gap_hit_tokens:,}",
        *(_rate(cell.metrics.get(name)) for name in _SHOWN),
        f"{cell.evictions:,}",
        f"{cell.block_accesses / cell.seconds / 1e6:.2g}",
    ]


def _token_rate(cells: list[Cell]) -> str:
    return f"{mean(cell.token_hit_rate for cell in cells):.4f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def is_wide(lru: Cell, opt: Cell) -> bool:
    """Whether a share of the gap between the two is told: see `TOLD_GAP`."""
    return opt.token_hit_rate - lru.token_hit_rate >= TOLD_GAP


def _wide(rows: Rows) -> set[tuple[int | None, int]]:
    """Sizes and arrival seeds at which it is."""
    ends: dict[str, dict[tuple[int | None, int], Cell]] = {BASELINE: {}, OPTIMUM: {}}
    for plan, cell in rows.items():
        if plan.label in ends:  # lru over tiers is no baseline here
            ends[plan.label][cell.capacity_blocks, cell.arrival_seed] = cell
    lru, opt = ends[BASELINE], ends[OPTIMUM]
    return {at for at in lru if at in opt and is_wide(lru[at], opt[at])}


def _gap(wide: Set[tuple[int | None, int]], cells: list[Cell]) -> str:
    gaps = [
        cell.gap_closed
        for cell in cells
        if cell.gap_closed is not None and (cell.capacity_blocks, cell.arrival_seed) in wide
    ]
    return f"{mean(gaps):+.1%}" if gaps else "-"


def _ttft(cells: list[Cell]) -> str:
    times = [cell.mean_ttft_seconds for cell in cells if cell.mean_ttft_seconds is not None]
    return f"{mean(times):.3g}" if times else "-"


def unfinished(plans: list[Plan], done: Mapping[Plan, Cell]) -> str:
    """The cells that Ctrl-C left out, in a few words."""
    rest = [str(plan) for plan in plans if plan not in done]
    more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
    return f"interrupted: {len(done)} of {len(plans)} cells finished; not run: " + (
        "; ".join(rest[:3]) + more
    )
