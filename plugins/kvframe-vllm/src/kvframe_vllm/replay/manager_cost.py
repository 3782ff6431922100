"""``python -m kvframe_vllm.replay.manager_cost``: a step under kvframe's manager beside vLLM's own.

Time that all calls of the KV manager take in a step, median and mean over the steps of a run; and
processor time of vLLM's ``schedule`` and ``update_from_output`` whole, in runs of their own. Runs
take turns.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import json
import logging
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvframe_vllm.manager.scheduler import put_in
from kvframe_vllm.replay.cost import CALLS
from kvframe_vllm.replay.engine import Load, Run, requests, run, scheduler
from kvframe_vllm.replay.workload import Families

STOCK = "stock"

ALL_CALLS = (
    *CALLS,
    "cache_blocks",
    "estimate_cached_tokens",
    "record_prefix_cache_stats",
    "take_boundary_state_offloads",
    "take_kv_cache_block_copies",
    "take_new_block_ids",
)
"""What the scheduler calls of the manager in a step."""


def main() -> None:
    """Print the medians of runs in turn and their ratio to stock; write the record if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.manager_cost", description=__doc__
    )
    parser.add_argument("--policies", default="lru,lfu,foresight", help="names by comma")
    parser.add_argument("--running", default="8,256,1024", help="requests at once, by comma")
    parser.add_argument("--answer", type=int, default=256, help="tokens, where more than 8 run")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", help="file for the record")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    names = [STOCK, *asked.policies.split(",")]
    cells = []
    for running in map(int, asked.running.split(",")):
        for row in measured(names, running, asked.answer, asked.turns):
            cells.append(row)
            print(
                f"{running:>5} running, {row['policy']:<10}"
                f" manager {row['manager_us']:7.1f} us a step, {row['manager_ratio']:.3f} of stock"
                f" (mean {row['manager_mean_us']:7.1f}, {row['manager_mean_ratio']:.3f});"
                f" whole step {row['step_us']:7.1f} us, {row['step_ratio']:.3f}",
                flush=True,
            )
    if asked.json:
        Path(asked.json).write_text(json.dumps(record(cells), indent=1) + "\n", encoding="utf-8")


def load_of(running: int, answer: int) -> tuple[Load, list[list[int]], int]:
    """A pool that is just too small, so that blocks are evicted; prompts; tokens of an answer."""
    if running <= 8:
        return Load(blocks=500, running=running), Families().prompts(), 16
    blocks = (44 + answer // 16) * running
    load = Load(blocks=blocks, running=running, batch=max(2048, 4 * running))
    return load, Families(requests=2 * running).prompts(), answer


def measured(names: list[str], running: int, answer: int, turns: int) -> list[dict[str, Any]]:
    """A row for each policy: medians of the runs, each, and the ratios to stock."""
    given = load_of(running, answer)
    runs: dict[str, list[list[float]]] = {name: [] for name in names}
    for _ in range(turns):
        for name in names:
            runs[name].append([*turn(name, *given), whole_turn(name, *given)])
    found: dict[str, list[float]] = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in runs.items()
    }
    rows = []
    for name, (median, mean, step) in found.items():
        stock_median, stock_mean, stock_step = found[STOCK]
        row = {"running": running, "policy": name, "answer": given[2]}
        row |= {"manager_us": median, "manager_ratio": median / stock_median}
        row |= {"manager_mean_us": mean, "manager_mean_ratio": mean / stock_mean}
        row |= {"step_us": step, "step_ratio": step / stock_step}
        told = {
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in row.items()
        }
        rows.append(told | {"runs": [[round(each, 1) for each in one] for one in runs[name]]})
    return rows


def turn(policy: str, load: Load, prompts: list[list[int]], output: int) -> list[float]:
    """Microseconds of the manager in a step of one run: the median, and the mean."""
    made = made_for(policy, load)
    manager, spent, steps = made.kv_cache_manager, [0.0], []
    own = timer_s()
    for name in ALL_CALLS:
        setattr(manager, name, timed(getattr(manager, name), spent, own))

    def before(step: int) -> None:
        steps.append(spent[0])
        spent[0] = 0.0

    serve(made, load, prompts, output, before)
    return [statistics.median(steps[1:]) * 1e6, statistics.fmean(steps[1:]) * 1e6]


def whole_turn(policy: str, load: Load, prompts: list[list[int]], output: int) -> float:
    """Microseconds of processor time that a step of the scheduler takes in one run."""
    done = serve(made_for(policy, load), load, prompts, output, lambda step: None)
    return done.schedule_us + done.update_us


def made_for(policy: str, load: Load) -> Any:
    """A scheduler under that policy."""
    made = scheduler(load)
    if policy != STOCK:
        made.vllm_config.additional_config = {"kvframe": policy}
        if not put_in(made):
            raise SystemExit(f"kvframe cannot manage by {policy}")
    return made


def serve(
    made: Any, load: Load, prompts: list[list[int]], output: int, before: Callable[[int], None]
) -> Run:
    """Serve all prompts; Python collects no garbage of what was there before."""
    for request in requests(prompts, load.block_size, output):
        made.add_request(request)
    gc.collect()
    gc.freeze()
    done = run(made, load, before)
    gc.unfreeze()
    return done


def timed(call: Callable[..., Any], spent: list[float], own: float) -> Callable[..., Any]:
    """The same call, whose time is added up, less what the timer takes by its ``own``. The clock is
    the one that takes least: one of processor time takes longer than most calls.
    """
    clock = time.perf_counter

    def timed_call(*args: Any, **kwargs: Any) -> Any:
        start = clock()
        try:
            return call(*args, **kwargs)
        finally:
            spent[0] += clock() - start - own

    return timed_call


def timer_s() -> float:
    """Seconds that `timed` finds in a call that does nothing: the least of 100 means of 1,000."""

    def nothing(request: Any, tokens: int, num_lookahead_tokens: int = 0) -> None:
        pass

    spent = [0.0]
    call, found = timed(nothing, spent, 0.0), []
    for _ in range(100):
        spent[0] = 0.0
        for _ in range(1000):
            call(None, 1, num_lookahead_tokens=0)
        found.append(spent[0] / 1000)
    return min(found)


def record(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """The cells with what they were measured by."""
    names = ("vllm", "kvframe", "kvframe-vllm")
    return {
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python -m kvframe_vllm.replay.manager_cost", *sys.argv[1:]]),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in names},
        "cells": cells,
    }


if __name__ == "__main__":
    main()
