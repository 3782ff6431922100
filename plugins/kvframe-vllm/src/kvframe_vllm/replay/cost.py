"""``python -m kvframe_vllm.replay.cost``: time of the KV manager a step, stock beside policies."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

from kvframe_vllm.choice import resolved
from kvframe_vllm.install import put_in
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


def main() -> None:
    """Print the medians of runs in turn, and the ratio to stock."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay.cost", description=__doc__)
    parser.add_argument("--policies", default="lru,lfu", help="names by comma")
    parser.add_argument("--running", type=int, default=8, help="requests that run at once")
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    prompts = Families(requests=asked.requests).prompts()
    load = Load(blocks=asked.blocks, running=asked.running, batch=max(2048, 4 * asked.running))
    names = ["stock", *asked.policies.split(",")]
    spent: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(asked.turns):
        for name in names:
            spent[name].append(turn(None if name == "stock" else name, load, prompts))
    medians = {name: statistics.median(times) for name, times in spent.items()}
    for name, times in spent.items():
        ratio = medians[name] / medians["stock"]
        print(f"{name:<12} {medians[name]:8.1f} us a step ({ratio:.3f} of stock)", flush=True)
        print(f"             {json.dumps([round(each, 1) for each in times])}")


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
