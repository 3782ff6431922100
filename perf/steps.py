"""``python -m perf.steps``: what the KV cache costs a scheduler step that does everything at once.

A loop shaped like an engine's scheduler: 256 sequences run; new ones arrive with shared prefixes
and are prefilled in chunks; a quarter of them speculate, and have drafts cut; some fork; those that
end make room; where room runs out, the last admitted are preempted and come back. All of it is one
`step` call a step, beside reading the table of a sequence that starts to decode. Only the time in
the manager counts as KV work; the whole loop is timed, too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from perf.measure import quiet
from perf.results import command_line, save, warn_debug
from perf.scheduler import Scheduler
from perf.table import short, table

BARS = {"steps_per_s": 1_000.0, "median_us": 100.0, "p99_us": 500.0}


def measure(steps: int, running: int) -> dict[str, Any]:
    """One run: a quarter of the steps to fill the batch, then the measured ones."""
    scheduler = Scheduler(running)
    with quiet():
        for _ in range(steps // 4):
            scheduler.step()
        scheduler.measured()
        for _ in range(steps):
            scheduler.step()
    spent, seconds, did = scheduler.measured()
    work = np.array(spent) * 1e6
    return {
        "steps": len(work),
        "steps_per_s": len(work) / seconds,
        "median_us": float(np.median(work)),
        "p99_us": float(np.percentile(work, 99)),
        "mean_us": float(work.mean()),
        "did": did,
    }


def show(rows: list[dict[str, Any]]) -> str:
    """The rounds as a table, and what the last one did."""
    head = ["round", "steps/s", "KV work, median µs", "p99 µs", "mean µs"]
    keys = ("steps_per_s", "median_us", "p99_us", "mean_us")
    cells = [[str(i), *(short(row[key]) for key in keys)] for i, row in enumerate(rows, 1)]
    bars = ["bar", *(short(BARS.get(key)) for key in keys)]
    did = ", ".join(f"{count:,} {what}" for what, count in rows[-1]["did"].items())
    return f"{table(head, [*cells, bars])}\n{did}"


def main() -> int:
    """Measure, print, save."""
    parser = command_line("steps", __doc__, prints="an object a round", rounds=3)
    parser.add_argument("--steps", type=int, default=4_000)
    asked = parser.parse_args()
    warn_debug()
    size = (400, 16) if asked.quick else (asked.steps, 256)
    rows = [measure(*size) for _ in range(asked.rounds)]
    if asked.save:
        print(save("steps", [], rows, rounds=asked.rounds, bars=BARS), file=sys.stderr)
    print(json.dumps(rows, indent=2) if asked.json else show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
