"""``python -m perf.indexers``: the router's index beside Dynamo's, both in one process and in Rust.

Beside what Dynamo serves with: its RadixTree, and its concurrent compressed tree behind one writer
thread. `perf.core` measures the same index from Python, beside the class that Dynamo offers there.
The program is built at first use, with the peer from crates.io. Each work runs on all sides in
turn, several rounds, and the best counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from perf.results import save
from perf.table import short, table

CRATE = Path(__file__).parent / "sides" / "indexers"
PEER = "dynamo-kv-router 1.6.1"
THEIRS = ("RadixTree", "compressed")


def measured(rounds: int) -> dict[str, dict[str, float]]:
    """The best of ``rounds`` by work and side; ingest in million blocks a second, matches in µs."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--release"], cwd=CRATE, check=True, env={**os.environ}
    )
    program = CRATE / "target" / "release" / "kvframe-perf-indexers"
    ran = subprocess.run([program, str(rounds)], check=True, stdout=subprocess.PIPE, text=True)
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in ran.stdout.splitlines():
        work, side, value = line.split("\t")
        values[work][side].append(float(value))

    def best(work: str, of: list[float]) -> float:
        # Memory that an earlier work left free says too little: the first round of it is right.
        return min(of) if "match" in work else max(of)

    return {
        work: {side: best(work, of) for side, of in sides.items()} for work, sides in values.items()
    }


def ratio(work: str, ours: float, theirs: float | None) -> float | None:
    """How many times better ours is."""
    if not theirs or not ours:
        return None
    return ours / theirs if work.endswith("ingest") else theirs / ours


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m perf.indexers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-indexers.json")
    asked = parser.parse_args()
    found = measured(asked.rounds)
    rows = [
        {
            "work": work,
            **sides,
            **{f"{side}_ratio": ratio(work, sides["kvframe"], sides.get(side)) for side in THEIRS},
        }
        for work, sides in found.items()
    ]
    if asked.save:
        print(save("indexers", [PEER], rows, rounds=asked.rounds), file=sys.stderr)
    columns = ("kvframe", "RadixTree", "RadixTree_ratio", "compressed", "compressed_ratio")
    head = ["work (M blocks/s, bytes, µs)", "kvframe", "RadixTree", "times", "compressed", "times"]
    cells = [[str(row["work"]), *(short(_number(row.get(key))) for key in columns)] for row in rows]
    print(table(head, cells))
    return 0


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None


if __name__ == "__main__":
    sys.exit(main())
