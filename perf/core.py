"""``python -m perf.core``: the core's hot paths beside vLLM's and beside what they cost at least.

Each work runs several rounds; where a peer is there, its round follows each of ours. The best round
is printed, since other load on a machine only ever adds; files of ``--save`` hold the median too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from typing import Any

from perf import blocks, decode, hashing, memory, radix, serving
from perf.measure import Sample
from perf.peers import Peer, PeerError
from perf.results import save, warn_debug
from perf.table import short, table
from perf.work import Work

WORKS = (
    *blocks.WORKS,
    *hashing.WORKS,
    *serving.WORKS,
    *decode.WORKS,
    *radix.WORKS,
    *memory.WORKS,
)
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
PUBLIC = ("work", "unit", "better", "kvframe", "bar", "peer", "peer_value", "floor")


def measure(work: Work, peer: Peer | None, rounds: int, quick: bool) -> dict[str, Any]:
    """One row: ours and the peer's rounds in turn."""
    once = work.make(quick)
    ours: list[float] = []
    theirs: list[float] = []
    floors: list[float] = []
    for _ in range(rounds):
        floors.append(work.floor())
        ours.append(once())
        if peer is not None and work.peer is not None:
            theirs.append(float(peer.ask(work=work.peer, quick=quick)["value"]))
    mine = Sample.of(ours, work.better)
    other = Sample.of(theirs, work.better) if theirs else None
    return {
        "work": work.name,
        "unit": work.unit,
        "better": work.better,
        "kvframe": mine.best,
        "kvframe_median": mine.median,
        "bar": work.bar,
        "peer": peer.name if peer is not None and other is not None else None,
        "peer_value": other.best if other is not None else None,
        "peer_median": other.median if other is not None else None,
        "ratio": other.best / mine.best if other is not None else None,
        "floor": min(floors),
        "floor_is": work.floor_is,
    }


def show(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    head = ["work", "unit", "kvframe", "median", "bar", "floor", "peer", "peer / kvframe"]
    cells = [
        [
            row["work"],
            row["unit"].replace("us", "µs"),
            *(short(row[key]) for key in ("kvframe", "kvframe_median", "bar", "floor")),
            short(row["peer_value"]),
            short(row["ratio"]),
        ]
        for row in rows
    ]
    return table(head, cells)


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m perf.core", description=__doc__)
    names = [work.name for work in WORKS]
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("--only", action="append", choices=names, metavar="WORK", help="repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all")
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-core.json")
    parser.add_argument(
        "--peer-python",
        default=os.environ.get("VLLM_PYTHON"),
        help="a Python that can import vLLM (default: $VLLM_PYTHON); none: no peer",
    )
    return parser.parse_args()


def main() -> int:
    """Measure, print, save."""
    asked = arguments()
    warn_debug()
    works = [work for work in WORKS if asked.only is None or work.name in asked.only]
    with ExitStack() as stack:
        peer = None
        if asked.peer_python:
            try:
                peer = stack.enter_context(Peer("for_vllm.py", asked.peer_python, **QUIET))
            except PeerError as error:
                print(f"no peer: {error}", file=sys.stderr)
        rows = []
        for work in works:
            print(work.name, file=sys.stderr, flush=True)
            rows.append(measure(work, peer, asked.rounds, asked.quick))
        peers = [peer.name] if peer is not None else []
    if asked.save:
        print(save("core", peers, rows, rounds=asked.rounds), file=sys.stderr)
    if asked.json:
        print(json.dumps([{key: row[key] for key in PUBLIC} for row in rows], indent=2))
    else:
        print(show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
