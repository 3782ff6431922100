"""``python -m perf.server``: requests that the simulated server serves in a second, and its memory.

Speed: the shipped traces at fixed rates, in CPU time of one core, beside the floor: the same verbs
of the core on the same prompts without a clock (`kvframe bench run` in engine mode). Memory: a made
trace of 10^6 requests, read, then served at fixed rates and by steps, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kvframe.bench.traces import load
from perf.jsonl import write_jsonl
from perf.peers import Peer
from perf.results import save, warn_debug
from perf.table import short, table

TRACES = ("conversation", "synthetic", "agent")
CAPACITIES = (2_000, 8_000)
FIXED = {"prefill": 50_000.0, "decode": 0.020}
BAR = 100_000
"""Requests a second."""
MILLION = 1_000_000
BLOCK = 512
STEPS = "num_tokens,n_decode,kv_decode,prefill_chunk,step_us\n"
CARD = ("1,1,1000,0,5000", "256,256,2000000,0,40000", "8192,0,0,8192,180000")
BESIDE = ("8193,1,1000,8192,185000", "8448,256,2000000,8192,220000")


def speeds(name: str, capacity: int, rounds: int, folder: Path) -> dict[str, Any]:
    """One trace at fixed rates, and its floor; the best CPU time of several rounds, in turns."""
    trace = load(name).trace
    path = folder / f"{name}.jsonl"
    if not path.exists():
        write_jsonl(trace, path)
    asked = {"trace": str(path), "block_size": trace.block_size, "blocks": capacity}
    with Peer("for_server.py", sys.executable) as side:
        served, floor = [], []
        for _ in range(rounds):
            served.append(side.ask(**asked, policy="lru", fixed=FIXED)["cpu_seconds"])
            floor.append(side.ask(**asked, policy="lru")["cpu_seconds"])
    accesses = trace.prepare("timed")["block_accesses"]
    return {
        "trace": name,
        "capacity_blocks": capacity,
        "requests": trace.requests,
        "blocks_a_request": accesses / trace.requests,
        "requests_a_second": trace.requests / min(served),
        "floor_requests_a_second": trace.requests / min(floor),
        "nanoseconds_a_block": min(served) / accesses * 1e9,
    }


def million(path: Path) -> None:
    """Sessions that grow turn by turn: 10^6 rows of 4 to 24 blocks, of which all share two."""
    dice = np.random.default_rng(0)
    turns: dict[int, list[int]] = {}
    made, at = 2, 0
    with path.open("w", encoding="utf-8") as out:
        for _ in range(MILLION // 10_000):
            draws = dice.integers(0, [500, 4, 40], size=(10_000, 3)).tolist()
            for session, more, answer in draws:
                ids = turns.get(session, [0, 1])
                ids = ids if len(ids) < 21 else [0, 1]
                ids = [*ids, *range(made, made + 2 + more)]
                made += 2 + more
                turns[session] = ids
                at += 120
                out.write(
                    f'{{"timestamp":{at},"input_length":{len(ids) * BLOCK + 7},'
                    f'"output_length":{1 + answer},"hash_ids":{ids}}}\n'
                )


def memory(folder: Path) -> list[dict[str, Any]]:
    """Peak MiB with the trace alone, and with each server beside it."""
    path, steps = folder / "million.jsonl", folder / "steps.csv"
    million(path)
    steps.write_text(STEPS + "\n".join((*CARD, *BESIDE)) + "\n")
    asked = {"trace": str(path), "block_size": BLOCK}
    rows = []
    for what, more in (
        ("the trace", {}),
        ("fixed rates", {"policy": "lru", "blocks": 8_000, "fixed": FIXED}),
        ("steps", {"policy": "lru", "blocks": 8_000, "table": str(steps)}),
    ):
        with Peer("for_server.py", sys.executable) as side:
            got = side.ask(**asked, **more)
        rows.append({"what": what, "requests": MILLION, **got})
    return rows


def show(fast: Sequence[dict[str, Any]], held: Sequence[dict[str, Any]]) -> str:
    """Both tables."""
    head = ["trace", "blocks", "blocks a request", "requests/s", "floor", "ns a block"]
    cells = [
        [
            *(row["trace"], f"{row['capacity_blocks']:,}", short(row["blocks_a_request"])),
            *(short(row[key]) for key in ("requests_a_second", "floor_requests_a_second")),
            short(row["nanoseconds_a_block"]),
        ]
        for row in fast
    ]
    memories = [
        [
            row["what"],
            f"{row['peak_mib']:.0f}",
            short(row.get("seconds")),
            f"{row.get('steps', 0):,}",
        ]
        for row in held
    ]
    more = table([f"{MILLION:,} requests", "peak MiB", "seconds", "steps"], memories)
    return f"{table(head, cells)}\n\n{more}"


def main() -> int:
    """Measure, show, save. 1 if a trace is served more slowly than the bar."""
    parser = argparse.ArgumentParser(prog="python -m perf.server", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-memory", action="store_true", help="speed alone")
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-server.json")
    parser.add_argument("--json", action="store_true", help="print an object: speed, memory")
    asked = parser.parse_args()
    warn_debug()
    with TemporaryDirectory() as name:
        folder = Path(name)
        fast = [
            speeds(trace, capacity, asked.rounds, folder)
            for trace in TRACES
            for capacity in CAPACITIES
        ]
        held = [] if asked.no_memory else memory(folder)
    if asked.save:
        print(save("server", [], fast, memory=held, bar=BAR), file=sys.stderr)
    print(json.dumps({"speed": fast, "memory": held}) if asked.json else show(fast, held))
    return 0 if all(row["requests_a_second"] >= BAR for row in fast) else 1


if __name__ == "__main__":
    sys.exit(main())
