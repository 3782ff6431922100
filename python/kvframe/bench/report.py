"""The report of a run as titled tables; `render` formats them."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.verdict import Rows, judge, sentence, with_gap_closed

NOTES = (
    "Hit: the tokens of a request's longest cached prefix, counted once, from a cold cache.",
    "Token-weighted: hit tokens / input tokens. Block-weighted: hit blocks / blocks. "
    "Request mean: the mean of each request's own hit / input.",
    "After-gap: tokens that were cached behind the first missing block; they serve nobody and are "
    "in no hit rate.",
    "trace mode: every id is a block, a partial tail too, and a whole prompt may hit. engine mode: "
    "the manager itself; full blocks only, the last token is always computed. timed mode: the same "
    "by the clock, beside sequences that still run.",
)


@dataclass
class Table:
    """A title, a header and rows of text; the first column is text, the others are numbers."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass
class Section:
    """One trace in one mode: a heading, its tables, its verdict."""

    heading: str
    tables: list[Table]
    verdict: str


def sections(rows: Rows, *, brief: bool = False) -> list[Section]:
    """The report of all finished rows, a section for each trace and mode.

    ``brief`` shows the details at the verdict's capacity only, not at each one.
    """
    groups: dict[tuple[str, str], dict[Plan, Cell]] = defaultdict(dict)
    for plan, cell in rows.items():
        groups[plan.group][plan] = cell
    return [_section(with_gap_closed(group), brief) for group in groups.values()]


def _section(rows: Rows, brief: bool) -> Section:
    plan, cell = next(iter(rows.items()))
    trace = plan.source.trace
    heading = (
        f"{plan.source.name}: {plan.mode} mode, blocks of {cell.block_size} tokens, "
        f"{cell.requests:,} requests, {cell.input_tokens:,} input tokens, "
        f"{cell.block_accesses:,} block accesses (parsed in {trace.parse_seconds:.2f} s, "
        f"prepared in {cell.prepare_seconds:.2f} s)"
    )
    capacities = list(dict.fromkeys(p.capacity for p in rows if p.capacity is not None))
    tables = [_pivot("Token hit rate by capacity in blocks", rows, capacities, _token_rate)]
    online = {plan: cell for plan, cell in rows.items() if not plan.policy.replay_only}
    if any(cell.gap_closed is not None for cell in online.values()):
        title = "Gap closed to optimal, (policy - lru) / (opt - lru)"
        tables.append(_pivot(title, online, capacities, _percent))
    shown: list[int | None] = list(capacities) or [None]
    at = judge(rows).capacity
    if brief and at is not None:
        shown = [at]
    tables += [_details(rows, capacity) for capacity in shown]
    return Section(heading, tables, sentence(rows))


def _pivot(title: str, rows: Rows, capacities: list[int], text: Callable[[Cell], str]) -> Table:
    """Policies down, capacities across; the bound, which has no capacity, fills its whole row."""
    by_policy: dict[str, dict[int | None, Cell]] = defaultdict(dict)
    for plan, cell in rows.items():
        by_policy[plan.label][plan.capacity] = cell
    columns: list[int | None] = list(capacities) or [None]
    table = Table(title, ["policy", *("any" if size is None else str(size) for size in columns)])
    for label, cells in by_policy.items():
        found = [cells.get(size, cells.get(None)) for size in columns]
        table.rows.append([label, *("-" if cell is None else text(cell) for cell in found)])
    return table


def _details(rows: Rows, capacity: int | None) -> Table:
    size = "any capacity" if capacity is None else f"{capacity} blocks"
    table = Table(
        f"At {size}: the three hit rates apart, and what they cost",
        [
            "policy",
            "token-weighted",
            "block-weighted",
            "request mean",
            "after-gap tokens",
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
        _token_rate(cell),
        _rate(cell.block_hit_rate),
        _rate(cell.mean_request_hit_rate),
        f"{cell.after_gap_hit_tokens:,}",
        f"{cell.evictions:,}",
        f"{cell.block_accesses / cell.seconds / 1e6:.1f}",
    ]


def _token_rate(cell: Cell) -> str:
    return f"{cell.token_hit_rate:.4f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _percent(cell: Cell) -> str:
    return "-" if cell.gap_closed is None else f"{cell.gap_closed:+.1%}"


def unfinished(plans: list[Plan], done: Mapping[Plan, Cell]) -> str:
    """The cells that Ctrl-C left out, in a few words."""
    rest = [str(plan) for plan in plans if plan not in done]
    more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
    return f"interrupted: {len(done)} of {len(plans)} cells finished; not run: " + (
        "; ".join(rest[:3]) + more
    )
