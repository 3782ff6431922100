"""``python -m perf.aisimulate``: the simulated server beside AISimulate, in one run.

First the managers: one request after the other, answers of one token; the reused tokens must be
equal under lru and under the optimum. Where they are not, once more with prompts that fill their
last block one token shorter. Then the servers, both with AISimulate's step times (ours from a table
that `examples/step_times/from_aisimulate.py` fills), at several loads: reuse, TTFT and throughput
side by side, requests a second of each one's processor time, and memory. Each side is a process of
its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kvframe.bench.traces import load
from perf.peers import Peer, PeerError, python_with
from perf.results import save, warn_debug
from perf.table import short, table

REQUIREMENT = "aisimulate==0.13.0.dev202610270000000085"
FILLER = Path(__file__).parents[1] / "examples" / "step_times" / "from_aisimulate.py"
TRACES = ("conversation", "synthetic", "agent")
CAPACITIES = (2_000, 8_000, 32_000)
LOADS = (0.25, 0.5, 1.0)
SERVED = 8_000
"""Blocks of the servers."""
POLICIES = {"lru": "lru", "opt-forced": "belady"}
LONGEST = 1 << 20
"""Tokens of the longest request there: some of the agent trace exceed the model's own limit."""
REUSE, TTFT, THROUGHPUT = 0.01, 0.10, 0.05
"""How far apart the servers may be: a share of the prompts, and shares of their figures."""


class Files:
    """A trace as JSONL for both sides: with answers of one token, without full last blocks, or at a
    load.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Of the trace ``name``."""
        self.folder, self.name, self.trace = folder, name, load(name).trace
        self.block_size = self.trace.block_size
        chains = (self.trace.request(i)[4] for i in range(self.trace.requests))
        self.nodes = 1 + max((max(ids) for ids in chains if ids), default=0)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for i in range(self.trace.requests):
            at, tokens, answer, _, ids = self.trace.request(i)
            named = list(ids)
            if len(named) * self.block_size < tokens:
                # A partial block, which AISimulate wants named.
                named.append(self.nodes + i)
            yield {
                "timestamp": at,
                "input_length": tokens,
                "output_length": answer,
                "hash_ids": named,
            }

    def serial(self, shortened: bool) -> tuple[Path, int]:
        """Answers of one token, and how many prompts fill their last block; ``shortened``: these
        lose a token.
        """
        path = self.folder / f"{self.name}-{'short' if shortened else 'serial'}.jsonl"
        full = 0
        with path.open("w", encoding="utf-8") as out:
            for row in self._rows():
                row["output_length"] = 1
                if row["input_length"] and row["input_length"] % self.block_size == 0:
                    full += 1
                    row["input_length"] -= int(shortened)
                out.write(json.dumps(row) + "\n")
        return path, full

    def at(self, factor: float) -> Path:
        """Times divided by the load, in whole milliseconds."""
        path = self.folder / f"{self.name}-{factor:g}.jsonl"
        first = int(self.trace.columns()["timestamp_ms"][0])
        with path.open("w", encoding="utf-8") as out:
            for row in self._rows():
                row["timestamp"] = first + round((row["timestamp"] - first) / factor)
                out.write(json.dumps(row) + "\n")
        return path


def managers(files: Files, sides: tuple[Peer, Peer]) -> list[dict[str, Any]]:
    """Reused tokens of both, one request after the other."""
    rows: list[dict[str, Any]] = []
    for shortened in (False, True):
        path, full = files.serial(shortened)
        if shortened and not any(row["difference_blocks"] for row in rows):
            continue
        for policy, theirs in POLICIES.items():
            for blocks in CAPACITIES:
                ours, peer = both_serial(files, sides, (path, policy, theirs, blocks))
                rows.append(
                    {
                        "trace": files.name,
                        "policy": policy,
                        "blocks": blocks,
                        "full_last_blocks": 0 if shortened else full,
                        "kvframe_reused_tokens": ours["reused_tokens"],
                        "peer_reused_tokens": peer,
                        "difference_blocks": (peer - ours["reused_tokens"]) / files.block_size,
                    }
                )
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def both_serial(
    files: Files, sides: tuple[Peer, Peer], cell: tuple[Path, str, str, int]
) -> tuple[dict[str, Any], int]:
    """Our answer, and the peer's reused tokens."""
    path, policy, theirs, blocks = cell
    size = files.block_size
    ours = sides[0].ask(trace=str(path), block_size=size, policy=policy, blocks=blocks)
    rank = {"max_num_seqs": 1, "max_model_len": LONGEST}
    peer = sides[1].ask(replay=str(path), block_size=size, policy=theirs, blocks=blocks, rank=rank)
    return ours, peer["total_input_tokens"] - peer["committed_prefill_tokens"]


def servers(
    files: Files, sides: tuple[Peer, Peer], step_times: Path, rounds: int
) -> list[dict[str, Any]]:
    """Both servers at every load, and how long each simulation took: the best of several rounds."""
    rows = []
    for factor in LOADS:
        path, size = str(files.at(factor)), files.block_size
        ours: list[dict[str, Any]] = []
        single: list[dict[str, Any]] = []
        theirs: list[dict[str, Any]] = []
        asked = {
            "trace": path,
            "block_size": size,
            "policy": "lru",
            "blocks": SERVED,
            "table": str(step_times),
        }
        rank = {"max_model_len": LONGEST}
        for _ in range(rounds):
            ours.append(sides[0].ask(**asked, every_step=False))
            single.append(sides[0].ask(**asked, every_step=True))
            theirs.append(
                sides[1].ask(replay=path, block_size=size, policy="lru", blocks=SERVED, rank=rank)
            )
        rows.append(beside(files.name, factor, (ours, single, theirs)))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def beside(name: str, factor: float, found: tuple[list[dict[str, Any]], ...]) -> dict[str, Any]:
    """What both say of one load."""
    # The processor's seconds, which other load disturbs less than the clock's.
    seconds = [min(one["cpu_seconds"] for one in side) for side in found]
    ours, _, theirs = (side[0] for side in found)
    prompts = theirs["total_input_tokens"]
    reused = (prompts - theirs["committed_prefill_tokens"]) / prompts
    own = ours["reused_tokens"] / ours["total_input_tokens"]
    row: dict[str, Any] = {
        "trace": name,
        "load": factor,
        "requests": ours["completed_requests"],
        "peer_requests": theirs["completed_requests"],
        "reuse": own,
        "peer_reuse": reused,
        "reuse_apart": own - reused,
        "preemptions": ours["preemptions"],
        "steps": ours["steps"],
    }
    figures = ("mean_ttft_ms", "median_ttft_ms", "p90_ttft_ms", "p99_ttft_ms", "mean_itl_ms")
    for key in (*figures, "request_throughput_rps"):
        row |= {key: ours[key], f"peer_{key}": theirs[key]}
        row[f"{key}_apart"] = ours[key] / theirs[key] - 1 if theirs[key] else None
    count = ours["completed_requests"]
    row["requests_a_second"], row["every_step"], row["peer_requests_a_second"] = (
        count / took for took in seconds
    )
    row["times_faster"] = seconds[2] / seconds[0]
    row["times_faster_every_step"] = seconds[2] / seconds[1]
    row["peak_mib"] = max(one["peak_mib"] for one in found[0])
    row["peer_peak_mib"] = max(one["peak_mib"] for one in found[2])
    row["within_bars"] = (
        abs(row["reuse_apart"]) <= REUSE
        and abs(row["mean_ttft_ms_apart"]) <= TTFT
        and abs(row["p90_ttft_ms_apart"]) <= TTFT
        and abs(row["request_throughput_rps_apart"]) <= THROUGHPUT
    )
    return row


def show(serial: list[dict[str, Any]], timed: list[dict[str, Any]]) -> str:
    """Both tables."""
    head = ["trace", "policy", "blocks", "full last blocks", "kvframe", "peer", "apart, blocks"]
    cells = [
        [
            *(row["trace"], row["policy"], f"{row['blocks']:,}", str(row["full_last_blocks"])),
            *(f"{row['kvframe_reused_tokens']:,}", f"{row['peer_reused_tokens']:,}"),
            f"{row['difference_blocks']:g}",
        ]
        for row in serial
    ]
    names = ["trace", "load", "reuse", "peer", "TTFT s", "peer", "P90 s", "peer", "req/s", "peer"]
    speeds = [
        [
            *(row["trace"], f"{row['load']:g}", f"{row['reuse']:.4f}", f"{row['peer_reuse']:.4f}"),
            *(short(row[key] / 1e3) for key in ("mean_ttft_ms", "peer_mean_ttft_ms")),
            *(short(row[key] / 1e3) for key in ("p90_ttft_ms", "peer_p90_ttft_ms")),
            *(short(row[f"{who}request_throughput_rps"]) for who in ("", "peer_")),
            f"{row['requests_a_second']:,.0f}",
            *(f"{row[key]:.1f}" for key in ("times_faster", "times_faster_every_step")),
            *(f"{row[key]:.0f}" for key in ("peak_mib", "peer_peak_mib")),
        ]
        for row in timed
    ]
    more = ["simulated/s", "x peer", "x step by step", "MiB", "peer"]
    return f"{table(head, cells)}\n\n{table([*names, *more], speeds)}"


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m perf.aisimulate", description=__doc__)
    parser.add_argument("--trace", action="append", help="repeatable; default: three shipped ones")
    parser.add_argument("--rounds", type=int, default=3, help="of each server (default: 3)")
    parser.add_argument(
        "--save", action="store_true", help="write perf/results/DATE-aisimulate.json"
    )
    parser.add_argument("--json", action="store_true", help="print an object: serial, servers")
    parser.add_argument(
        "--peer-python",
        help=f"a Python with {REQUIREMENT}; left out, one is made in ~/.cache/kvframe-perf",
    )
    return parser.parse_args()


def main() -> int:
    """Measure, show, save. 1 if a bar is missed."""
    asked = arguments()
    warn_debug()
    try:
        python = asked.peer_python or python_with(REQUIREMENT)
        ours, theirs = Peer("for_server.py", sys.executable), Peer("for_aisimulate.py", python)
    except PeerError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return 2
    serial: list[dict[str, Any]] = []
    timed: list[dict[str, Any]] = []
    with TemporaryDirectory() as name, ours, theirs:
        folder = Path(name)
        step_times = folder / "step_times.csv"
        subprocess.run([python, str(FILLER), "-o", str(step_times)], check=True)
        for trace in asked.trace or TRACES:
            files = Files(folder, trace)
            serial += managers(files, (ours, theirs))
            timed += servers(files, (ours, theirs), step_times, asked.rounds)
    if asked.save:
        more = {"serial": serial, "rounds": asked.rounds, "blocks": SERVED}
        print(save("aisimulate", [theirs.name], timed, **more), file=sys.stderr)
    print(json.dumps({"serial": serial, "servers": timed}) if asked.json else show(serial, timed))
    equal = all(row["difference_blocks"] == 0 for row in serial if not row["full_last_blocks"])
    return 0 if equal and all(row["within_bars"] for row in timed) else 1


if __name__ == "__main__":
    sys.exit(main())
