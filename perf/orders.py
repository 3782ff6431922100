"""``python -m perf.orders``: who comes in first, and who is preempted, on a simulated server.

Serves the shipped traces at a quarter, half and full load under each waiting order, under eviction
policies in two of these orders, and at full load under each preemption order, and writes the tables
into docs/how-to/simulate-a-server.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from kvframe.bench.server.cells import LAST_ADMITTED, ServerCell, simulate
from kvframe.bench.server.job import ServerJob
from kvframe.bench.server.request import ServerRequest
from perf.pages import write
from perf.results import warn_debug
from perf.table import short, table

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "simulate-a-server.md"
CAPACITIES = {"conversation": "8000", "synthetic": "2000", "agent": "4000"}
LOADS = ("0.25", "0.5", "1")
WAITING = ("fcfs", "shortest", "longest-prefix", "fewest-uncached")
POLICIES = ("lru", "foresight", "opt")
PREEMPTED = (LAST_ADMITTED, "fewest-computed", "longest-first", "most-freed")


def served(trace: str, policy: str, load: str, order: str, preempted: str) -> ServerCell:
    """One simulation."""
    asked = ServerRequest(
        traces=[trace],
        policies=[policy],
        capacities=[CAPACITIES[trace]],
        loads=[load],
        order=order,
        preemption_order=preempted,
        quiet=True,
    )
    job = ServerJob(asked)
    (plan,) = (plan for plan in job.plans if plan.time_factor == 1.0)
    return simulate(plan, job.server).cell


def row(cell: ServerCell, first: ServerCell, what: str) -> list[str]:
    """A row; beside mean, median and P99 stands the change against the first of its group."""

    def beside(now: float | None, before: float | None) -> str:
        if now is None or before is None or cell is first:
            return short(now)
        return f"{short(now)} ({now / before - 1:+.0%})"

    return [
        *(cell.trace, f"{cell.load:g}", what, f"{100 * cell.token_hit_rate:.2f}"),
        beside(cell.ttft_mean, first.ttft_mean),
        beside(cell.ttft_p50, first.ttft_p50),
        beside(cell.ttft_p99, first.ttft_p99),
        beside(cell.requests_per_second, first.requests_per_second),
        f"{cell.preemptions:,}",
    ]


def waiting() -> Iterator[list[str]]:
    """Rows of waiting orders."""
    for trace in CAPACITIES:
        for load in LOADS:
            cells = [served(trace, "lru", load, order, LAST_ADMITTED) for order in WAITING]
            rows = zip(cells, WAITING, strict=True)
            yield from (row(cell, cells[0], order) for cell, order in rows)
            print(f"{trace}, load {load}: done", file=sys.stderr)


def evicted() -> Iterator[list[str]]:
    """Rows of eviction policies, in the order of arrival and in the best one."""
    for trace in CAPACITIES:
        for load in LOADS:
            for order in (WAITING[0], WAITING[-1]):
                cells = [served(trace, policy, load, order, LAST_ADMITTED) for policy in POLICIES]
                means = [row(cell, cells[0], "")[4] for cell in cells]
                hits = [f"{100 * cell.token_hit_rate:.2f}" for cell in cells]
                yield [trace, load, order, *means, *hits]
            print(f"{trace}, load {load}, policies: done", file=sys.stderr)


def preempted() -> Iterator[list[str]]:
    """Rows of preemption orders."""
    for trace in CAPACITIES:
        cells = [served(trace, "lru", LOADS[-1], "fcfs", order) for order in PREEMPTED]
        rows = zip(cells, PREEMPTED, strict=True)
        yield from (row(cell, cells[0], order) for cell, order in rows)
        print(f"{trace}, preemption: done", file=sys.stderr)


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m perf.orders", description=__doc__)
    parser.parse_args()
    warn_debug()
    numbers = ["hit, %", "TTFT mean, s", "P50", "P99", "req/s", "preempted"]
    by_policy = [f"{what}, {policy}" for what in ("TTFT mean, s", "hit, %") for policy in POLICIES]
    tables = "\n\n".join(
        table(["trace", "load", *head], list(lines))
        for head, lines in (
            (["waiting order", *numbers], waiting()),
            (["waiting order", *by_policy], evicted()),
            (["preemption order", *numbers], preempted()),
        )
    )
    print(tables)
    write(PAGE, "perf.orders", tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
