"""``python -m perf.sglang``: the radix index beside SGLang's Python tree and its Rust core.

Their turns alternate, round by round, and the best is printed. In a pool from which nothing is
evicted all three must find the same tokens of every request, or the run fails; in one that evicts,
each has an order of its own (SGLang evicts nodes, kvframe blocks), and the shares found are shown.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from perf.measure import Sample
from perf.peers import Peer, PeerError
from perf.radix import WORKS, served
from perf.results import save, warn_debug
from perf.sides.workload import POOL, prompts
from perf.table import short, table
from perf.work import Work

SIDE = "for_sglang.py"
TREES = ("rust", "python")
AMPLE = 700_000
"""Blocks that the whole stream fits into: nothing is evicted."""
SLOW = {("match_32k_512", "python"), ("evict_one_40k", "python"), ("evict_one_64k", "python")}
"""What takes SGLang too long to be worth a wait: 12 to 50 ms a call when last measured."""


def compare(work: Work, peer: Peer, rounds: int, quick: bool) -> dict[str, Any]:
    """One row: ours, and both of theirs in turn."""
    once = work.make(quick)
    trees = [tree for tree in TREES if quick or (work.name, tree) not in SLOW]
    ours: list[float] = []
    theirs: dict[str, list[float]] = {tree: [] for tree in trees}
    for _ in range(rounds):
        ours.append(once())
        for tree in trees:
            asked = peer.ask(work=work.peer, tree=tree, quick=quick)
            theirs[tree].append(float(asked["value"]))
    row: dict[str, Any] = {"work": work.name, "kvframe": Sample.of(ours, work.better).best}
    for tree in trees:
        row[tree] = Sample.of(theirs[tree], work.better).best
        row[f"{tree}_ratio"] = row[tree] / row["kvframe"]
    return row


def found(peer: Peer, blocks: int, quick: bool) -> dict[str, list[int]]:
    """Tokens found of each request of the stream, by each."""
    asked = prompts(60 if quick else 2_000)
    hits = {"kvframe": served(asked, blocks)}
    for tree in TREES:
        hits[tree] = peer.ask(work="hits", tree=tree, quick=quick, pool=blocks)["hits"]
    return hits


def share(hits: Sequence[int], quick: bool) -> float:
    """The part of all prompt tokens that was found."""
    return sum(hits) / sum(len(prompt) for prompt in prompts(60 if quick else 2_000))


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m perf.sglang", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all")
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-sglang.json")
    return parser.parse_args()


def main() -> int:
    """Compare what is found, measure, print, save."""
    asked = arguments()
    python = os.environ.get("SGLANG_PYTHON")
    if python is None:
        print("SGLANG_PYTHON must name a Python that can import sglang 0.5.23", file=sys.stderr)
        return 2
    warn_debug()
    try:
        with Peer(SIDE, python) as peer:
            name = peer.name
            hits = found(peer, AMPLE, asked.quick)
            for tree in TREES:
                if hits[tree] != hits["kvframe"]:
                    print(f"{tree}: other tokens are found than by kvframe", file=sys.stderr)
                    return 1
            print(
                f"without eviction all three find the same: {share(hits['rust'], asked.quick):.4f}"
            )
            scarce = {
                who: share(of, asked.quick) for who, of in found(peer, POOL, asked.quick).items()
            }
            print(
                "with eviction: " + ", ".join(f"{who} {part:.4f}" for who, part in scarce.items())
            )
            rows = []
            for work in (work for work in WORKS if work.side == SIDE):
                print(work.name, file=sys.stderr, flush=True)
                rows.append(compare(work, peer, asked.rounds, asked.quick))
    except PeerError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return 1
    if asked.save:
        rows = [*rows, {"work": "found_with_eviction", **scarce}]
        print(save("sglang", [name], rows, rounds=asked.rounds), file=sys.stderr)
        rows.pop()
    columns = ("kvframe", "rust", "rust_ratio", "python", "python_ratio")
    head = ["work, µs", "kvframe", "SGLang's Rust core", "times", "its Python tree", "times"]
    print(table(head, [[row["work"], *(short(row.get(key)) for key in columns)] for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
