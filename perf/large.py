"""A plain JSONL trace of gigabytes: what reading and replaying it takes of memory and time.

The trace is made up: sessions of agents that grow turn by turn behind a few system prompts, in
blocks of 16 tokens, so that a row has about 1,300 ids and one block in eleven is new. It is written
once into the folder that is named, and used again by a later run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from perf.results import save, warn_debug

BLOCK = 16
OPEN = 400
"""Sessions that go on at a time."""
SYSTEMS = 20
LIMIT_BYTES = 1_000_000_000
LIMIT_RATE = 100.0
"""Megabytes a second."""


def write(path: Path, size: int, wide: bool) -> None:
    """Rows of at least ``size`` bytes in all; with ``wide``, ids of 64 bits as hashes have."""
    dice = np.random.default_rng(0)
    made = 0

    def ids(count: int) -> bytes:
        nonlocal made
        made += count
        numbers = range(made - count, made)
        named = (n * 0x9E3779B97F4A7C15 % 2**64 for n in numbers) if wide else numbers
        return b"".join(b",%d" % number for number in named)

    systems = [(100, ids(100)) for _ in range(SYSTEMS)]
    talks: list[tuple[int, bytes, int, int]] = []
    with path.with_suffix(".part").open("wb", buffering=1 << 22) as file:
        written = clock = sessions = 0
        while written < size:
            draws = dice.integers(0, [OPEN, 200, 40, 400, SYSTEMS], size=(4_096, 5)).tolist()
            for place, more, turns, answer, system in draws:
                if place >= len(talks):
                    blocks, known = systems[system]
                    talks.append((blocks, known, 0, sessions))
                    sessions, place = sessions + 1, len(talks) - 1
                blocks, known, turn, session = talks[place]
                blocks, known = blocks + 20 + more, known + ids(20 + more)
                clock += 100
                row = b'{"timestamp":%d,"input_length":%d,"output_length":%d,"session_id":%d,' % (
                    clock,
                    blocks * BLOCK + answer % BLOCK,
                    answer,
                    session,
                ) + b'"block_size":%d,"hash_ids":[%b]}\n' % (BLOCK, known[1:])
                written += file.write(row)
                if turn > 10 + turns:
                    talks[place] = talks[-1]
                    talks.pop()
                else:
                    talks[place] = blocks, known, turn + 1, session
    path.with_suffix(".part").rename(path)
    print(f"{path}: {written:,} bytes, {made:,} distinct blocks", file=sys.stderr)


LAUNCHER = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = time.perf_counter() - start
print(json.dumps([code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A process begins with the peak of its parent: a small one starts what is measured."""


def measure(command: list[str], size: int) -> dict[str, object]:
    """Runs it to its end: seconds, megabytes of input a second, and the most memory it had."""
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, check=False, text=True
    )
    code, seconds, cpu_seconds, peak = json.loads(done.stdout)
    if code:
        raise SystemExit(f"{' '.join(command)}: exit code {code}")
    return {
        "command": " ".join(command[2:]),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "megabytes_a_second": round(size / seconds / 1e6, 1),
        "peak_megabytes": round(peak * 1024 / 1e6),
    }


def main() -> None:
    """Measures every command in turn, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--wide", action="store_true", help="ids of 64 bits")
    parser.add_argument("--capacity", default="1000000")
    parser.add_argument("--policies", default="lru,fifo")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    warn_debug()
    name = f"large-{asked.gigabytes:g}{'-wide' if asked.wide else ''}.jsonl"
    trace = asked.folder / name
    if not trace.exists():
        write(trace, int(asked.gigabytes * 1e9), asked.wide)
    size = trace.stat().st_size
    run = [sys.executable, "-m", "kvframe"]
    replay = [*run, "bench", "run", "--quiet", "--format", "json"]
    works = [
        [*run, "trace", "info", str(trace)],
        [*run, "trace", "convert", str(trace), "-o", "-"],
        [*run, "trace", "sample", str(trace), "--share", "0.1", "-o", "-"],
        *(
            [*replay, "--trace", str(trace), "--policy", policy, "--capacity", asked.capacity]
            for policy in asked.policies.split(",")
        ),
    ]
    rows = []
    for work in works:
        rows.append(measure(work, size))
        print(rows[-1], flush=True)
    if asked.save:
        print(save("large", [], rows, bytes=size))
    fat = [row["command"] for row in rows if int(str(row["peak_megabytes"])) * 1e6 > LIMIT_BYTES]
    slow = [row["command"] for row in rows if float(str(row["megabytes_a_second"])) < LIMIT_RATE]
    for what, which in (("more than 1 GB", fat), (f"less than {LIMIT_RATE:g} MB/s", slow)):
        for command in which:
            print(f"{what}: {command}")


if __name__ == "__main__":
    main()
