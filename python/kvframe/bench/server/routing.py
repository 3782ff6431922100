"""Replicas, routings and floods: their tables, and what is said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kvframe.bench.report import Table
from kvframe.bench.server import promise
from kvframe.bench.server.cells import ServerCell, ServerPlan
from kvframe.bench.server.fleet import PartCell
from kvframe.bench.server.summary import short
from kvframe.bench.server.verdict import ALIKE, FACTORS, Cells, lag, rejected, unfinished


def replicas_table(cells: Sequence[ServerCell], parts: Sequence[PartCell]) -> Table:
    """A row a replica, after one of all together."""
    header = ["policy", "routing", "load", "replica", "requests", "hit", "TTFT mean", "TTFT P99"]
    table = Table(
        "What each replica does, TTFT in s", [*header, "busy", "computed", "evicted", "queue"]
    )
    for cell in cells:
        same = (cell.policy, cell.routing, cell.load)
        promised = cell.promised_tokens or 0
        queue = f"{promised:,} tokens promised, " if promised else ""
        table.rows.append(
            [
                *(cell.policy, cell.routing or "-", f"{cell.load:g}", "all", f"{cell.requests:,}"),
                *(f"{cell.token_hit_rate:.4f}", short(cell.ttft_mean), short(cell.ttft_p99)),
                *(f"{cell.utilisation:.0%}", f"{cell.prefill_tokens + cell.decode_tokens:,}"),
                *(f"{cell.evictions:,}", f"{queue}imbalance {cell.imbalance or 1:.2f}"),
            ]
        )
        for part in parts:
            if (part.policy, part.routing, part.load) != same:
                continue
            row = [part.policy, part.routing or "-", f"{part.load:g}", part.part]
            row += [f"{part.requests:,}", f"{part.token_hit_rate:.4f}"]
            row += [short(part.ttft_mean), short(part.ttft_p99), f"{part.utilisation or 0:.0%}"]
            counts = (part.computed_tokens, part.evictions, part.peak_waiting)
            table.rows.append([*row, *(f"{count or 0:,}" for count in counts)])
    return table


def classes_table(_: Sequence[ServerCell], parts: Sequence[PartCell]) -> Table:
    """A row a class."""
    header = ["policy", "routing", "load", "class", "requests", "hit", "TTFT mean", "TTFT P50"]
    table = Table("What each class feels, times in s", [*header, "TTFT P99", "E2E mean"])
    for part in parts:
        row = [part.policy, part.routing or "-", f"{part.load:g}", part.part, f"{part.requests:,}"]
        row += [f"{part.token_hit_rate:.4f}", short(part.ttft_mean), short(part.ttft_p50)]
        table.rows.append([*row, short(part.ttft_p99), short(part.e2e_mean)])
    return table


def sentences(cells: Cells) -> list[str]:
    """Which routing serves best, for each trace, capacity, load, policy and number of replicas that
    several were tried with; none where no request was finished.
    """
    groups: dict[tuple[str, int, float, str, str], dict[ServerPlan, ServerCell]] = defaultdict(dict)
    for plan, cell in cells.items():
        if plan.fleet.servers > 1:
            key = (plan.source.name, plan.capacity, plan.load, cell.policy, plan.fleet.crew)
            groups[key][plan] = cell
    said = []
    for (name, size, load, policy, crew), group in groups.items():
        tried = [cell for plan, cell in group.items() if plan.time_factor == 1.0]
        if len(tried) > 1 and any(cell.finished for cell in tried):
            where = f"{name}, load {load:g}, {crew} of {size} blocks, {policy}"
            said.append(f"{where}: {rejected(group)}{_choice(group, tried)}{unfinished(group)}.")
    return said


def _choice(group: Cells, tried: Sequence[ServerCell]) -> str:
    rows = [[cell] for cell in tried]
    by_goodput = promise.decides(rows)

    def cost(cell: ServerCell) -> float:
        return promise.cost(cell, by_goodput)

    def ahead(one: ServerCell, other: ServerCell) -> float:
        return (cost(other) - cost(one)) / (max(abs(cost(one)), abs(cost(other))) or 1.0)

    def shown(cell: ServerCell) -> str:
        good = f"{short(cell.goodput)} good requests/s, " if by_goodput else ""
        return (
            f"{cell.routing} {good}mean TTFT {short(cell.ttft_mean)} s, hit "
            f"{cell.token_hit_rate:.4f}, imbalance {cell.imbalance or 1:.2f}"
        )

    best, worst = min(tried, key=cost), max(tried, key=cost)
    matters = ahead(best, worst) > ALIKE
    said = f"the choice among {len(tried)} routings does not matter, {shown(best)}"
    if matters:
        said = (
            f"{best.routing} routes best of {len(tried)}, {shown(best)}; last is {shown(worst)}, "
            f"{lag(best, worst, by_goodput)}"
        )
    said = f"{promise.hardly_kept(rows)}{said}"
    turned = []
    for factor in FACTORS:
        then = [cell for plan, cell in group.items() if plan.time_factor == factor]
        if len(then) < len(tried):
            continue
        first, last = min(then, key=cost), max(then, key=cost)
        same = next(cell for cell in then if cell.routing == best.routing)
        if ahead(first, same if matters else last) > ALIKE:
            behind = "" if matters else f", {last.routing} is last, {lag(first, last, by_goodput)}"
            turned.append(f"{first.routing} leads at {factor:g} times these step times{behind}")
    if turned:
        return f"{said}; {' and '.join(turned)}"
    return f"{said}; that survives step times of 0.7 and 1.4 times these"


def floods(parts: Sequence[PartCell], name: str, times: int) -> list[str]:
    """What the other classes lose to one that comes more often.

    Args:
        parts: Those of all time factors.
        name: The class.
        times: How often it comes, for each time before.
    """
    mark = f", {name} x {times}"
    found = {(p.trace, _place(p), p.time_factor): p for p in parts}
    said = []
    for (trace, place, factor), before in found.items():
        after = found.get((trace + mark, place, factor))
        if factor != 1.0 or after is None or before.part == name or not before.finished:
            continue
        routed = f" by {before.routing}" if before.routing else ""
        each = f"{before.replicas} replicas{routed} of " if before.replicas > 1 else ""
        others = {
            other: pair
            for other in FACTORS
            if all(
                pair := (found.get((trace, place, other)), found.get((trace + mark, place, other)))
            )
        }
        said.append(
            f"{trace}, load {before.load:g}, {each}{before.capacity_blocks} blocks, "
            f"{before.policy}: when {name} comes {times} times as often, {before.part} finds "
            f"{after.token_hit_rate:.4f} of its prompts instead of {before.token_hit_rate:.4f}, "
            f"and its P99 TTFT goes from {short(before.ttft_p99)} to {short(after.ttft_p99)} s"
            f"{_outlasts((before, after), others)}."
        )
    return said


def _place(part: PartCell) -> tuple[object, ...]:
    return part.policy, part.capacity_blocks, part.load, part.replicas, part.routing, part.part


def _outlasts(
    pair: tuple[PartCell, PartCell], others: Mapping[float, tuple[PartCell | None, ...]]
) -> str:
    """Whether P99 changes likewise at other step times."""

    def way(before: PartCell | None, after: PartCell | None) -> int:
        if before is None or after is None or not before.ttft_p99 or after.ttft_p99 is None:
            return 0
        change = after.ttft_p99 / before.ttft_p99 - 1
        return 0 if abs(change) <= ALIKE else 1 if change > 0 else -1

    if not others:
        return ""
    turned = [factor for factor, other in others.items() if way(*other) != way(*pair)]
    if not turned:
        return "; that survives step times of 0.7 and 1.4 times these"
    told = " and ".join(
        f"from {short(one.ttft_p99)} to {short(two.ttft_p99)} s at {factor:g}"
        for factor in turned
        for one, two in [others[factor]]
        if one is not None and two is not None
    )
    return f"; with other step times it is another: {told} times these"
