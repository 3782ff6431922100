"""``python -m perf.default``: foresight beside lru, on the shipped traces and on made-up traffic.

Prints a Markdown row for each cell: token hit rates over the whole trace, and of its later half.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from kvframe import _core
from kvframe.bench.traces import load
from perf.results import warn_debug
from perf.table import table
from perf.workloads import FAMILIES, SIZE, made, rows

CAPACITIES = {
    "conversation": (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000),
    "synthetic": (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
    "agent": (2_000, 4_000, 8_000, 16_000),
}
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


def rates(trace: _core.Trace, policy: str, capacity: int) -> tuple[float, float]:
    """Token hit rates in percent: all requests, the later half."""
    got = _core.replay(trace, policy, capacity, "engine")
    late = max(got["input_tokens_last_half"], 1)
    return (
        100 * got["hit_tokens"] / got["input_tokens"],
        100 * got["hit_tokens_last_half"] / late,
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
        lru, late_lru = rates(trace, "lru", capacity)
        got, late = rates(trace, asked.policy, capacity)
        values = [f"{lru:.2f}", f"{got:.2f}", f"{got - lru:+.2f}", f"{late - late_lru:+.2f}"]
        lines.append([name, f"{capacity:,}", *values])
    print(table(["trace", "blocks", "lru", asked.policy, "gain", "gain, later half"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
