"""``python -m perf.replay``: trace replay beside kvcache-simulator, one core each, in turn.

Both programs replay a trace under one policy at one capacity and at 1 + m; the difference over m
is what one more capacity costs, so that reading, parsing and preparing stay out of it. They take
turns, several rounds, and the best time of each counts. The peer starts a program and hands files
over, whose time varies by more than a fast replay takes: its m is larger. The hit tokens of the
last half must be equal wherever both run the same algorithm; kvcache-simulator's fifo evicts
without regard to children, so its numbers stand there for speed alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kvframe import _core
from kvframe.bench.traces import load
from perf.jsonl import write_jsonl
from perf.measure import Sample, seconds
from perf.peers import Peer, PeerError, python_with
from perf.results import save, warn_debug
from perf.table import short, table

REQUIREMENT = "kvcache-simulator==0.1.3"
THEIRS = {"lru": "lru", "opt": "optimal", "fifo": "fifo"}
SAME = ("lru", "opt")
CAPACITIES = (2_000, 4_000, 8_000, 16_000, 32_000)
MODE = "trace"


def sweep(trace: _core.Trace, policy: str, capacities: list[int]) -> dict[int, int]:
    """Our side: hit tokens of the last half at each capacity."""
    return {
        capacity: _core.replay(trace, policy, capacity, MODE)["hit_tokens_last_half"]
        for capacity in capacities
    }


def ask(peer: Peer, policy: str, capacities: list[int]) -> tuple[float, dict[int, int | None]]:
    """Their side: seconds, and hit tokens (None where the cache was not full by the half)."""
    answer = peer.ask(policy=THEIRS[policy], capacities=capacities)
    return answer["seconds"], {int(c): n for c, n in answer["hit_tokens_last_half"].items()}


def point(
    trace: _core.Trace, peer: Peer | None, policy: str, capacity: int, asked: argparse.Namespace
) -> dict[str, Any]:
    """One policy about one capacity: marginal seconds and block accesses a second of both.

    Raises:
        AssertionError: The two do not agree on the hit tokens.
    """
    few = [capacity]
    many, peer_many = ([capacity + i for i in range(m + 1)] for m in (asked.more, asked.peer_more))
    ours, ours_few, theirs, theirs_few = [], [], [], []
    equal = 0
    for _ in range(asked.rounds):
        hits: dict[int, int] = {}
        ours_few.append(seconds(lambda: sweep(trace, policy, few)))
        ours.append(seconds(lambda: hits.update(sweep(trace, policy, many))))  # noqa: B023
        if peer is None:
            continue
        theirs_few.append(ask(peer, policy, few)[0])
        took, found = ask(peer, policy, peer_many)
        theirs.append(took)
        if policy in SAME:
            equal = agree(policy, hits, found)
    mine = marginal(ours_few, ours, asked.more)
    other = marginal(theirs_few, theirs, asked.peer_more) if theirs else None
    return row(policy, capacity, trace.prepare(MODE)["block_accesses"], mine, other, equal)


def marginal(few: list[float], many: list[float], more: int) -> float | None:
    """Seconds that each of ``more`` capacities added; None if lost in the noise."""
    took = (min(many) - min(few)) / more
    return took if took > 0 else None


def row(
    policy: str,
    capacity: int | None,
    accesses: int,
    mine: float | None,
    other: float | None,
    equal: int,
) -> dict[str, Any]:
    """Speeds in M block accesses a second."""
    return {
        "policy": policy,
        "capacity_blocks": capacity,
        "seconds_a_capacity": mine,
        "kvframe": accesses / mine / 1e6 if mine else None,
        "peer_seconds_a_capacity": other,
        "peer": accesses / other / 1e6 if other else None,
        "ratio": other / mine if mine and other else None,
        "cells_with_equal_hits": equal,
    }


def agree(policy: str, ours: dict[int, int], theirs: dict[int, int | None]) -> int:
    """How many cells agree.

    Raises:
        AssertionError: One does not.
    """
    both = {c: n for c, n in theirs.items() if n is not None and c in ours}
    wrong = [c for c, n in both.items() if ours[c] != n]
    if wrong:
        c = wrong[0]
        raise AssertionError(f"{policy}, {c} blocks: {ours[c]} hit tokens here, {both[c]} there")
    return len(both)


def whole(policy: str, points: list[dict[str, Any]], accesses: int) -> dict[str, Any]:
    """All capacities of a policy together: accesses over the mean of their times."""

    def mean(key: str) -> float | None:
        values = [p[key] for p in points]
        return None if None in values else sum(values) / len(values)

    equal = sum(p["cells_with_equal_hits"] for p in points)
    mine, other = mean("seconds_a_capacity"), mean("peer_seconds_a_capacity")
    return row(policy, None, accesses, mine, other, equal)


def parsing(file: Path, peer: Peer | None, block_size: int, rounds: int) -> dict[str, Any]:
    """MB/s of reading ``file`` (JSONL, plain) into what each side replays from."""
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(seconds(lambda: _core.Trace.load(file, block_size)))
        if peer is not None:
            theirs.append(peer.ask(parse=str(file), block_size=block_size)["seconds"])
    size = file.stat().st_size / 1e6
    mine, other = size / min(ours), size / min(theirs) if theirs else None
    return {
        "megabytes": size,
        "kvframe": mine,
        "kvframe_median": size / Sample.of(ours).median,
        "peer": other,
        "ratio": mine / other if other else None,
    }


def show(rows: list[dict[str, Any]], parse: dict[str, Any], peer: str) -> str:
    """The rows as a table, and a line on parsing."""
    head = ["policy", "blocks", "kvframe M/s", f"{peer} M/s", "ratio", "equal cells"]
    cells = [
        [
            cell["policy"],
            f"{cell['capacity_blocks']:,}" if cell["capacity_blocks"] else "all",
            *(short(cell[key]) for key in ("kvframe", "peer", "ratio")),
            str(cell["cells_with_equal_hits"]) if cell["policy"] in SAME else "-",
        ]
        for cell in rows
    ]
    speeds = f"{short(parse['kvframe'])} MB/s, {peer} {short(parse['peer'])} MB/s"
    return f"{table(head, cells)}\n\nJSONL of {parse['megabytes']:.1f} MB: kvframe {speeds}"


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m perf.replay", description=__doc__)
    parser.add_argument("--trace", default="agent", help="shipped name or file (default: agent)")
    parser.add_argument("--policy", action="append", choices=list(THEIRS), help="repeatable")
    parser.add_argument("--capacity", action="append", type=int, help="blocks; repeatable")
    parser.add_argument("--more", type=int, default=8, help="our m (default: 8)")
    parser.add_argument("--peer-more", type=int, default=32, help="the peer's m (default: 32)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print an object: rows, parse")
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-replay.json")
    parser.add_argument(
        "--peer-python",
        help=f"a Python with {REQUIREMENT}; left out, one is made in ~/.cache/kvframe-perf",
    )
    parser.add_argument("--no-peer", action="store_true")
    return parser.parse_args()


def beside(asked: argparse.Namespace) -> Peer | None:
    """The peer's program, or None with a line on stderr."""
    if asked.no_peer:
        return None
    try:
        return Peer("for_kvcache_simulator.py", asked.peer_python or python_with(REQUIREMENT))
    except PeerError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return None


def main() -> int:
    """Measure, check, print, save."""
    asked = arguments()
    warn_debug()
    trace = load(asked.trace).trace
    prepared = trace.prepare(MODE)
    rows = []
    peer = beside(asked)
    with TemporaryDirectory() as folder, peer or nullcontext():
        file = Path(folder) / "trace.jsonl"
        write_jsonl(trace, file)
        parse = parsing(file, peer, trace.block_size, asked.rounds)
        for policy in asked.policy or list(THEIRS):
            points = []
            for capacity in asked.capacity or CAPACITIES:
                print(policy, capacity, file=sys.stderr, flush=True)
                points.append(point(trace, peer, policy, capacity, asked))
            rows += [*points, whole(policy, points, prepared["block_accesses"])]
    name = peer.name if peer is not None else "no peer"
    if asked.save:
        more = {"more": asked.more, "peer_more": asked.peer_more, "rounds": asked.rounds}
        told = {"trace": asked.trace, "mode": MODE, **more}
        path = save("replay", [name], rows, parse=parse, prepared=prepared, **told)
        print(path, file=sys.stderr)
    if asked.json:
        print(json.dumps({"rows": rows, "parse": parse}, indent=2))
    else:
        print(show(rows, parse, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
