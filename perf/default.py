"""``python -m perf.default``: foresight beside lru, on the shipped traces and on made-up traffic.

Prints a Markdown row for each cell: token hit rates over the whole trace, and of its later half;
the gain by the clock, beside running sequences; and how much more time the replay took.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

from kvframe import _core
from kvframe.bench.traces import load
from perf.cells import CAPACITIES
from perf.results import warn_debug
from perf.table import table
from perf.workloads import FAMILIES, SIZE, made, rows

SHARES = (0.005, 0.02, 0.06, 0.15, 0.4)
"""Capacities of made-up traffic, by its blocks that differ."""


def cells(seeds: int) -> Iterator[tuple[str, _core.Trace, int]]:
    """Name, trace and capacity."""
    for name, capacities in CAPACITIES.items():
        trace = load(name).trace
        yield from ((name, trace, capacity) for capacity in capacities)
    for family in FAMILIES:
        for seed in range(seeds):
            prompts = made(family, seed)
            unique = len({block for prompt in prompts for block in prompt})
            name = f"{family} {seed}"
            trace = _core.Trace.parse(b"".join(rows(prompts)), name, SIZE)
            for capacity in sorted({max(50, int(unique * share)) for share in SHARES}):
                yield name, trace, capacity


class Run(NamedTuple):
    """Token hit rates in percent, of all requests and of the later half; seconds."""

    whole: float
    late: float
    seconds: float


def run(trace: _core.Trace, policy: str, capacity: int, mode: str = "engine") -> Run:
    """One replay."""
    got = _core.replay(trace, policy, capacity, mode)
    return Run(
        100 * got["hit_tokens"] / got["input_tokens"],
        100 * got["hit_tokens_last_half"] / max(got["input_tokens_last_half"], 1),
        got["seconds"],
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m perf.default", description=__doc__)
    parser.add_argument("--policy", default="foresight")
    parser.add_argument("--seeds", type=int, default=2, help="of each family of made-up traffic")
    asked = parser.parse_args()
    warn_debug()
    lines = []
    for name, trace, capacity in cells(asked.seeds):
        lru, ours = (run(trace, policy, capacity) for policy in ("lru", asked.policy))
        by_clock = [run(trace, policy, capacity, "timed") for policy in ("lru", asked.policy)]
        lines.append(
            [
                *(name, f"{capacity:,}", f"{lru.whole:.2f}", f"{ours.whole:.2f}"),
                f"{ours.whole - lru.whole:+.2f}",
                f"{ours.late - lru.late:+.2f}",
                f"{by_clock[1].whole - by_clock[0].whole:+.2f}",
                f"{ours.seconds / lru.seconds:.1f}",
            ]
        )
    head = ["trace", "blocks", "lru", asked.policy, "gain", "gain, later half", "gain, timed"]
    print(table([*head, "times lru's time"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
