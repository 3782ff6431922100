"""``python -m kvframe_vllm.replay.manager_cost``: a step under kvframe's manager beside vLLM's own.

Processor time of vLLM's ``schedule`` and ``update_from_output``, a step. That of the manager is
what a step takes more than one whose manager only repeats what stock has answered: a clock around
each call would take longer than most calls. Runs take turns.
"""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
from pathlib import Path
from typing import Any

from kvframe_vllm.choice import STOCK, listed
from kvframe_vllm.command import one_line
from kvframe_vllm.manager.scheduler import put_in
from kvframe_vllm.replay import records
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.repeated import Repeated
from kvframe_vllm.replay.repeated import record as record_answers
from kvframe_vllm.replay.workload import Families

NONE = "none"
"""A manager that repeats what stock has answered."""

MANAGER_BARS = {8: 0.5, 256: 0.2}
"""Of stock's manager, that lru may take, by running requests."""

STEP_BAR = 1.0
"""Of stock's whole step, that foresight may take."""


@one_line
def main() -> None:
    """Print the medians of runs in turn and their ratio to stock; record, and fail above a bar."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.manager_cost", description=__doc__
    )
    parser.add_argument("--policies", default="lru,lfu,foresight", help="names by comma")
    parser.add_argument("--running", default="8,256,1024", help="requests at once, by comma")
    parser.add_argument("--answer", type=int, default=256, help="tokens, where more than 8 run")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument(
        "--json", type=Path, default=records.place("manager_cost"), help="the record"
    )
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    names = [STOCK, *listed(asked.policies)]
    cells = []
    for running in map(int, asked.running.split(",")):
        for row in measured(names, running, asked.answer, asked.turns):
            cells.append(row)
            print(
                f"{running:>5} running, {row['policy']:<10}"
                f" manager {row['manager_us']:8.1f} us a step, {row['manager_ratio']:.3f} of stock;"
                f" whole step {row['step_us']:8.1f} us, {row['step_ratio']:.3f}",
                flush=True,
            )
    records.write(asked.json, "replay.manager_cost", cells=cells)
    records.fail_if(missed(cells))


def load_of(running: int, answer: int) -> tuple[Load, list[list[int]], int]:
    """A pool that is just too small, so that blocks are evicted; prompts; tokens of an answer."""
    if running <= 8:
        return Load(blocks=500, running=running), Families().prompts(), 16
    blocks = (44 + answer // 16) * running
    load = Load(blocks=blocks, running=running, batch=max(2048, 4 * running))
    return load, Families(requests=2 * running).prompts(), answer


def measured(names: list[str], running: int, answer: int, turns: int) -> list[dict[str, Any]]:
    """A row for each policy: medians of the runs, each, and the ratios to stock."""
    load, prompts, output = load_of(running, answer)
    made = scheduler(load)
    answers = record_answers(made.kv_cache_manager)
    serve(made, load, prompts, output)
    runs: dict[str, list[float]] = {name: [] for name in (NONE, *names)}
    for _ in range(turns):
        for name, spent in runs.items():
            made = scheduler(load)
            if name == NONE:
                made.kv_cache_manager = Repeated(made.kv_cache_manager, answers)
            elif name != STOCK:
                made.vllm_config.additional_config = {"kvframe": name}
                if not put_in(made):
                    raise SystemExit(f"kvframe cannot manage by {name}")
            spent.append(serve(made, load, prompts, output))
    median = {name: statistics.median(spent) for name, spent in runs.items()}
    rows = []
    for name in names:
        row = {
            "manager_us": median[name] - median[NONE],
            "manager_ratio": (median[name] - median[NONE]) / (median[STOCK] - median[NONE]),
            "step_us": median[name],
            "step_ratio": median[name] / median[STOCK],
        }
        told = {key: round(value, 3) for key, value in row.items()}
        given = {"running": running, "policy": name, "answer": output}
        rows.append(given | told | {"step_runs": [round(each, 1) for each in runs[name]]})
    rows[0]["without_manager_runs"] = [round(each, 1) for each in runs[NONE]]
    return rows


def serve(made: Any, load: Load, prompts: list[list[int]], output: int) -> float:
    """Microseconds of processor time that a step of the scheduler takes in one run. Python collects
    no garbage of what was there before.
    """
    for request in requests(prompts, load.block_size, output):
        made.add_request(request)
    gc.collect()
    gc.freeze()
    done = run(made, load)
    gc.unfreeze()
    return done.schedule_us + done.update_us


def missed(cells: list[dict[str, Any]]) -> list[str]:
    """What is above its bar, a line each."""
    lines = []
    for cell in cells:
        running, policy = cell["running"], cell["policy"]
        share, bar = cell["manager_ratio"], MANAGER_BARS.get(running)
        if policy == "lru" and bar is not None and share > bar:
            lines.append(f"{running} running, lru: manager {share} of stock's, at most {bar}")
        if policy == "foresight" and cell["step_ratio"] > STEP_BAR:
            lines.append(f"{running} running, foresight: a step {cell['step_ratio']} of stock's")
    return lines


if __name__ == "__main__":
    main()
