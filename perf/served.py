"""``python -m perf.served``: what policies are worth to users, by the simulated server.

Serves the shipped traces (profile `h200-8b`) at a quarter, half and full load, at every capacity of
`perf.cells`, under each installed policy that an engine can run (``--leading``: the ten that hit
most), four pairs of an eviction and an admission policy, and `opt`. Each stands beside lru: hit
rate, time to first token, throughput. The requests of a run wait for one another, so an interval is
of twenty batches of consecutive requests (Law, 2015, chapter 9.5), resampled together for all
policies, and holds for all of a cell at once.

Prints the page; ``--save`` also keeps the record and writes docs/reference/served.md. Ctrl-C ends
the run: what is finished is printed, and with ``--save`` kept. ``--page`` writes the page from the
last record.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.bench.bootstrap import Intervals, drawn_rates, simultaneous
from kvframe.bench.policies import BASELINE, expand
from kvframe.bench.server.cells import ServerPlan, Simulated, simulate
from kvframe.bench.server.job import ServerJob
from kvframe.bench.server.request import ServerRequest
from kvframe.bench.server.summary import FINISHED
from kvframe.registry import Registry
from perf.bars import leading, recorded
from perf.cells import ADMISSIONS, CAPACITIES
from perf.results import last_record, save, warn_debug
from perf.served_page import BOUND, page
from perf.zoo_page import BOUNDS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "served.md"
PROFILE = "h200-8b"
LOADS = ("0.25", "0.5", "1")
PAIRED = ("lru", "mq")
"""Each also runs with each of `ADMISSIONS`."""
BATCHES = 20

Column = npt.NDArray[np.float64]


def online() -> list[str]:
    """Installed eviction policies that an engine can run; lru first, and none that evicts the same
    blocks as lru on all of these traces, by the record of `perf.zoo`.
    """
    pairs = [pair for pair in last_record("zoo")["same"] if BASELINE in pair]
    as_lru = set.intersection(
        *({name for of, *pair in pairs if of == trace for name in pair} for trace in CAPACITIES)
    )
    names = expand(["all"], Registry())[0]
    return [BASELINE, *(name for name in names if name not in {*BOUNDS, *as_lru})]


def policies(are_leading: bool) -> list[str]:
    """First lru, last the bound; all, or those of the highest mean in the zoo's record."""
    names = leading(recorded()) if are_leading else online()
    return [*dict.fromkeys([BASELINE, *names]), BOUND]


class Cell(NamedTuple):
    """One trace, capacity and load: the simulations of all policies in turn."""

    plans: Sequence[ServerPlan]
    job: ServerJob


def cells(trace: str, capacity: int, load: str, names: Sequence[str]) -> Cell:
    """The simulations of a cell: policies alone, and the pairs where all are asked for."""

    def job(some: Sequence[str], admissions: Sequence[str]) -> ServerJob:
        return ServerJob(
            ServerRequest(
                traces=[trace],
                policies=some,
                admissions=admissions,
                capacities=[str(capacity)],
                loads=[load],
                profile=PROFILE,
                quiet=True,
            )
        )

    alone = job(names, ())
    pairs = [name for name in PAIRED if name in names]
    jobs = [alone, *([job(pairs, ADMISSIONS)] if pairs else [])]
    plans = [plan for one in jobs for plan in one.plans if plan.time_factor == 1.0]
    return Cell(plans, alone)


def measured(cell: Cell) -> list[dict[str, Any]]:
    """A row a policy: its figures, and intervals of the change against lru, the first."""
    done = [simulate(plan, cell.job.server) for plan in cell.plans]
    hits, times = beside(cell.plans[0], done)
    rows = []
    for at, one in enumerate(done):
        got = one.cell
        rows.append(
            {
                "trace": got.trace,
                "capacity": got.capacity_blocks,
                "load": got.load,
                "policy": got.policy,
                "saturated": got.saturated,
                "hit": round(got.token_hit_rate, 6),
                "mean": rounded(got.ttft_mean),
                "p50": rounded(got.ttft_p50),
                "p99": rounded(got.ttft_p99),
                "requests_per_second": rounded(got.requests_per_second),
                "hit_low": round(float(hits.low[at]), 6),
                "hit_high": round(float(hits.high[at]), 6),
                "mean_low": round(float(np.expm1(times.low[at])), 4),
                "mean_high": round(float(np.expm1(times.high[at])), 4),
            }
        )
    return rows


def rounded(value: float | None) -> float:
    """Five significant digits; every trace has requests that are finished."""
    if value is None:
        raise AssertionError("no request was finished")
    return float(f"{value:.5g}")


def beside(plan: ServerPlan, done: Sequence[Simulated]) -> tuple[Intervals, Intervals]:
    """Intervals of hit rates less lru's, and of logarithms of mean times to the first token over
    lru's: a ratio and its inverse are equally far from none.
    """
    columns = plan.source.trace.columns()
    fates = [one.columns["fate"] == FINISHED for one in done]
    finished = np.logical_and.reduce(fates)
    batch = np.arange(len(finished)) * BATCHES // len(finished)
    waits = [
        np.where(finished, one.columns["first_token"] - one.columns["arrival"], 0.0) for one in done
    ]
    found = [np.where(finished, one.columns["cached_tokens"], 0).astype(float) for one in done]
    tokens = np.where(finished, columns["input_tokens"], 0).astype(float)

    def rates(of: Sequence[Column], over: Column) -> tuple[Column, Column]:
        whole = np.array([column.sum() for column in of]) / over.sum()
        return whole, drawn_rates(of, over, batch)

    hit, drawn_hit = rates(found, tokens)
    wait, drawn_wait = rates(waits, finished.astype(float))
    return (
        simultaneous(hit - hit[0], drawn_hit - drawn_hit[:, :1]),
        simultaneous(np.log(wait / wait[0]), np.log(drawn_wait / drawn_wait[:, :1])),
    )


def served(
    traces: Sequence[str], names: Sequence[str], processes: int
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each cell, as soon as it and those before it are finished."""
    places = [
        (trace, capacity, load)
        for trace in traces
        for capacity in CAPACITIES[trace]
        for load in LOADS
    ]
    with ProcessPoolExecutor(processes) as pool:
        waiting = [pool.submit(_measured_at, *place, names) for place in places]
        try:
            for (trace, capacity, load), one in zip(places, waiting, strict=True):
                yield one.result()
                print(f"{trace}, {capacity:,} blocks, load {load}: done", file=sys.stderr)
        except BaseException:  # else the cells that wait would be simulated first
            pool.shutdown(cancel_futures=True)
            raise


def _measured_at(
    trace: str, capacity: int, load: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    return measured(cells(trace, capacity, load, names))


def main() -> int:
    """Measure and print; keep it where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m perf.served", description=__doc__)
    parser.add_argument("--trace", choices=CAPACITIES, help="one alone")
    parser.add_argument("--leading", action="store_true", help="ten policies, of the highest hits")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--save", action="store_true", help="keep the record, write the page")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    asked = parser.parse_args()
    if asked.processes < 1:
        parser.error(f"argument --processes: {asked.processes}: must be at least 1")
    if asked.page:
        PAGE.write_text(page(last_record("served")), "utf-8")
        return 0
    warn_debug()
    rows: list[dict[str, Any]] = []
    complete = asked.trace is None
    traces = [asked.trace] if asked.trace else list(CAPACITIES)
    try:
        for cell in served(traces, policies(asked.leading), asked.processes):
            rows += cell
    except KeyboardInterrupt:
        complete = False
        print("interrupted: these are the cells that were finished", file=sys.stderr)
    if not rows:
        return 1
    how = {"profile": PROFILE, "leading": asked.leading, "complete": complete}
    if asked.save:
        save("served", [], rows, **how)
    print(page({"rows": rows, **how}))
    if asked.save and complete:
        PAGE.write_text(page(last_record("served")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
