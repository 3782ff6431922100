"""``python -m kvframe_vllm.replay.cost``: time of the KV manager a step, stock beside policies."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvframe_vllm.choice import listed, resolved
from kvframe_vllm.command import one_line
from kvframe_vllm.install import put_in
from kvframe_vllm.replay import records
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

CALLS = (
    "new_step_starts",
    "get_computed_blocks",
    "allocate_slots",
    "get_blocks",
    "free",
    "take_events",
    "make_prefix_cache_stats",
    "remove_skipped_blocks",
)
"""What the scheduler calls of the manager in a step."""

BAR = 1.05
"""Of stock's time, that lru may take."""


@one_line
def main() -> None:
    """Print the medians of runs in turn, and the ratio to stock; record, and fail above the bar."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay.cost", description=__doc__)
    parser.add_argument("--policies", default="lru,lfu", help="names by comma")
    parser.add_argument("--running", default="8,256", help="requests that run at once, by comma")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, default=records.place("cost"), help="the record")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    names = ["stock", *listed(asked.policies)]
    cells = [
        cell
        for running in map(int, asked.running.split(","))
        for cell in measured(names, running, asked.turns)
    ]
    records.write(asked.json, "replay.cost", bar=BAR, cells=cells)
    records.fail_if(
        [
            f"{cell['running']} running, {cell['policy']}: {cell['ratio']} of stock, at most {BAR}"
            for cell in cells
            if cell["policy"] == "lru" and cell["ratio"] > BAR
        ]
    )


def measured(names: list[str], running: int, turns: int) -> list[dict[str, Any]]:
    """The policies in turn, so that what else the machine does meets all of them."""
    # Enough requests that as many run for most of the time, the pool evicts, and a run is long
    # beside what else the machine does.
    prompts = Families(requests=max(2000, 3 * running)).prompts()
    load = Load(blocks=60 * running + 20, running=running, batch=max(2048, 64 * running))
    spent: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(turns):
        for name in names:
            spent[name].append(turn(None if name == "stock" else name, load, prompts))
    medians = {name: statistics.median(times) for name, times in spent.items()}
    cells = []
    for name, times in spent.items():
        ratio = medians[name] / medians["stock"]
        print(f"{running:>5} {name:<12} {medians[name]:8.1f} us a step ({ratio:.3f} of stock)")
        us = [round(each, 1) for each in times]
        print(f"                   {json.dumps(us)}", flush=True)
        cells.append({"running": running, "policy": name, "us": us, "ratio": round(ratio, 3)})
    return cells


def turn(policy: str | None, load: Load, prompts: list[list[int]]) -> float:
    """Microseconds a step in the manager, in one run."""
    made = scheduler(load)
    manager = made.kv_cache_manager
    if policy:
        put_in(manager.block_pool, resolved(policy))
    spent = [0.0]
    for name in CALLS:
        setattr(manager, name, timed(getattr(manager, name), spent))
    for request in requests(prompts, load.block_size):
        made.add_request(request)
    gc.collect()
    gc.freeze()
    done = run(made, load)
    return spent[0] / done.steps * 1e6


def timed(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """The same call, whose processor time is added up; what the clock takes is in both numbers."""

    def timed_call(*args: Any, **kwargs: Any) -> Any:
        start = time.thread_time()
        try:
            return call(*args, **kwargs)
        finally:
            spent[0] += time.thread_time() - start

    return timed_call


if __name__ == "__main__":
    main()
