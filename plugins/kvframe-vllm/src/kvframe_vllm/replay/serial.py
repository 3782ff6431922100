"""``python -m kvframe_vllm.replay.serial``: does ``kvframe bench run`` say what vLLM hits?

The same prompts, cut to whole blocks, go to both, one after the other: to vLLM's scheduler, each
answered by one token, in a pool of N + 1 blocks, of which one is its null block; and as a trace to
the command in ``engine`` mode, with N blocks. Compared are the tokens that each request hits, which
are whole blocks, and how many blocks are evicted. The outcome is entered into
``results/serial.json`` of the folder it is called in, which `kvframe_vllm.compatibility` shows.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kvframe.bench.results import read_outcomes
from kvframe_vllm.command import one_line
from kvframe_vllm.replay import records
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

RECORD = records.place("serial")
SIZES = (300, 500, 700)
BLOCK = Load(1).block_size


@one_line
def main() -> None:
    """Compare at every size, print, and record."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.serial", description=__doc__
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--blocks", default=",".join(map(str, SIZES)), help="N, by comma")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    # In engine mode a partial block at the end takes no room; vLLM gives it one while it serves.
    prompts = [
        prompt[: len(prompt) // BLOCK * BLOCK]
        for prompt in Families(requests=asked.requests).prompts()
    ]
    sizes = [int(size) for size in asked.blocks.split(",")]
    replayed = replay(prompts, sizes)
    missed = []
    for size in sizes:
        stock = serve(prompts, size + 1)
        row = {
            "blocks": size,
            "requests": len(prompts),
            "hit_tokens": sum(stock[0]),
            "evictions": stock[1],
            "equal": stock == replayed[size],
        }
        enter(row)
        print(json.dumps(row), flush=True)
        missed += [] if row["equal"] else [f"{size} blocks: they differ"]
    records.fail_if(missed)


def serve(prompts: list[list[int]], blocks: int) -> tuple[list[int], int]:
    """What vLLM hits of each prompt, and how many blocks it evicts."""
    load = Load(blocks=blocks, running=1, events=True)
    made = scheduler(load)
    for request in requests(prompts, load.block_size, 1):
        made.add_request(request)
    done = run(made, load)
    gone = sum(type(event).__name__ == "BlockRemoved" for event in made.replay_events)
    return [done.hits[str(number)] for number in range(len(prompts))], gone


def replay(prompts: list[list[int]], sizes: list[int]) -> dict[int, tuple[list[int], int]]:
    """The same as ``kvframe bench run`` says, by blocks."""
    with tempfile.TemporaryDirectory() as name:
        trace, out = Path(name, "serial.jsonl"), Path(name, "out")
        trace.write_text("".join(json.dumps({"token_ids": each}) + "\n" for each in prompts))
        subprocess.run(
            [
                *(sys.executable, "-m", "kvframe", "bench", "run", "--trace", str(trace)),
                *("--policy", "lru", "--capacity", ",".join(map(str, sizes)), "--mode", "engine"),
                *("--out", str(out), "--quiet"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found = {}
        for file in out.glob("cells/*.json"):
            cell = json.loads(file.read_text())["cell"]
            # The command adds the bounds beside lru.
            if cell["policy"] == "lru":
                hits = read_outcomes(out, file.stem).hit_tokens.tolist()
                found[cell["capacity_blocks"]] = hits, cell["evictions"]
        return found


def enter(row: dict[str, Any]) -> None:
    """Put a row into the record, in place of what it had of that release and size."""
    row = {"vllm": importlib.metadata.version("vllm"), **row}
    row |= {"date": datetime.date.today().isoformat()}
    row |= {"command": " ".join(["python -m kvframe_vllm.replay.serial", *sys.argv[1:]])}
    rows = json.loads(RECORD.read_text()) if RECORD.is_file() else []
    kept = [one for one in rows if (one["vllm"], one["blocks"]) != (row["vllm"], row["blocks"])]
    kept.append(row)
    kept.sort(key=lambda one: (one["vllm"], -one["blocks"]), reverse=True)
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
