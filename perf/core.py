"""``python -m perf.core``: the core's hot paths beside its peers' and what they cost at least.

Each work runs several rounds; where a peer is there, its round follows each of ours. The best round
is printed, since other load on a machine only ever adds; files of ``--save`` hold the median too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from perf import blocks, decode, hashing, memory, radix, router, serving
from perf.measure import Sample
from perf.peers import Peer, PeerError
from perf.results import command_line, save, warn_debug
from perf.table import short, table
from perf.work import Work

WORKS = (
    *blocks.WORKS,
    *hashing.WORKS,
    *serving.WORKS,
    *decode.WORKS,
    *radix.WORKS,
    *router.WORKS,
    *memory.WORKS,
)
PYTHONS = {
    "for_vllm.py": "VLLM_PYTHON",
    "for_dynamo.py": "DYNAMO_PYTHON",
    "for_sglang.py": "SGLANG_PYTHON",
}
"""Programs of perf/sides, and the variable that names a Python which can import their peer."""
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
SLOWER = 1.05
PUBLIC = ("work", "unit", "better", "kvframe", "bar", "peer", "peer_value", "floor")


def measure(
    work: Work, peer: Peer | None, name: str | None, rounds: int, quick: bool
) -> dict[str, Any]:
    """One row: ours and the peer's rounds in turn; ``name`` is what the peer calls the work."""
    once = work.make(quick)
    ours: list[float] = []
    theirs: list[float] = []
    floors: list[float] = []
    for _ in range(rounds):
        floors.append(work.floor())
        ours.append(once())
        if peer is not None and name is not None:
            value = peer.ask(work=name, quick=quick)["value"]
            theirs += [] if value is None else [float(value)]
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
        "ratio": times(mine.best, other.best, work.better) if other is not None else None,
        "floor": min(floors),
        "floor_is": work.floor_is,
    }


def times(ours: float, theirs: float, better: str) -> float:
    """How many times better ours is."""
    return theirs / ours if better == "lower" else ours / theirs


def show(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    head = ["work", "unit", "kvframe", "median", "bar", "floor", "peer", "times better"]
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
    parser = command_line("core", __doc__, prints="a list of objects")
    names = [work.name for work in WORKS]
    parser.add_argument("--only", action="append", choices=names, metavar="WORK", help="repeatable")
    parser.add_argument(
        "--beside",
        metavar="CHECKOUT",
        help="another build's, with its .venv: it is the peer; exit status 1 if it is 1.05x faster",
    )
    return parser.parse_args()


def peers_of(works: list[Work], stack: ExitStack) -> dict[str, Peer]:
    """The peers of these works whose Python the environment names, by their side's program."""
    found: dict[str, Peer] = {}
    for side, variable in PYTHONS.items():
        python = os.environ.get(variable)
        if python is None or not any(work.side == side and work.peer for work in works):
            continue
        try:
            found[side] = stack.enter_context(Peer(side, python, **QUIET))
        except PeerError as error:
            print(f"no peer: {error}", file=sys.stderr)
    return found


def build(checkout: str) -> Peer:
    """Another build of kvframe, as the peer of every work that it has, too."""
    python = Path(checkout).resolve() / ".venv" / "bin" / "python"
    return Peer("for_kvframe.py", str(python), str(Path(checkout).resolve()))


def main() -> int:
    """Measure, print, save."""
    asked = arguments()
    warn_debug()
    works = [work for work in WORKS if asked.only is None or work.name in asked.only]
    with ExitStack() as stack:
        other = None if asked.beside is None else stack.enter_context(build(asked.beside))
        peers = {} if other else peers_of(works, stack)
        rows = []
        for work in works:
            print(work.name, file=sys.stderr, flush=True)
            peer, name = (other, work.name) if other else (peers.get(work.side), work.peer)
            rows.append(measure(work, peer, name, asked.rounds, asked.quick))
        names = [peer.name for peer in ([other] if other else peers.values())]
    if asked.save:
        print(save("core", names, rows, rounds=asked.rounds), file=sys.stderr)
    if asked.json:
        print(json.dumps([{key: row[key] for key in PUBLIC} for row in rows], indent=2))
    else:
        print(show(rows))
    slower = [row["work"] for row in rows if other and (row["ratio"] or 1) < 1 / SLOWER]
    if slower:
        print(f"slower than {names[0]}: {', '.join(slower)}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
