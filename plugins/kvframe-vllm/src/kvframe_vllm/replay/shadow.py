"""``python -m kvframe_vllm.replay.shadow``: how far shadows are from runs, and what they cost.

Each load is served once by vLLM's scheduler under its own lru, with shadows beside it, and then
once more for every policy and size that a shadow had. Sampling is measured in pools of 4,000 blocks
under loads as much larger. Writes ``results/shadow.json`` and the tables of ``SHADOW.md`` in the
folder it is called in, and fails where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvframe.shadow import ShadowReport
from kvframe.spelling import did_you_mean
from kvframe_vllm.choice import listed, resolved
from kvframe_vllm.command import one_line
from kvframe_vllm.install import put_in
from kvframe_vllm.replay import records
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.exposed import exposed
from kvframe_vllm.replay.loads import LOADS, of_trace
from kvframe_vllm.replay.shadow_bars import BARS, missed
from kvframe_vllm.replay.shadow_cost import TURNS, costs
from kvframe_vllm.replay.shadow_page import page
from kvframe_vllm.replay.shadowed import with_shadows

POLICIES = (
    *("lru", "lfu", "lfuda", "slru", "arc"),
    *("s3-fifo", "w-tinylfu", "2q", "lirs", "mq"),
)
SIZES = (0.5, 1.0, 2.0)
BLOCKS = 500
"""Of the pool, without the null block."""

RUNNING, BATCH = 8, 2048
"""Requests at once, and tokens of a step."""

STRIDE = 8
"""Of the sampled shadows, whose loads and pools are as many times larger."""

RECORD, PAGE = records.place("shadow"), Path("SHADOW.md")


@one_line
def main() -> None:
    """Measure, record, write the page, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay.shadow")
    parser.add_argument("--policies", default=",".join(POLICIES), help="names by comma")
    parser.add_argument("--loads", help=f"names by comma, of {', '.join(LOADS)}; by default all")
    parser.add_argument("--trace", help="instead of these loads: a shipped trace or a file")
    parser.add_argument("--turns", type=int, default=TURNS, help="of the cost; 0 leaves it out")
    parser.add_argument("--json", type=Path, help="the record; by default results/shadow.json")
    asked = parser.parse_args()
    if asked.trace and asked.json is None:
        parser.error("--trace: needs --json, for the record is of the loads that everyone has")
    if asked.trace and asked.loads:
        parser.error("--trace and --loads: name one of them")
    names = (asked.loads or ",".join(LOADS)).split(",")
    for name in names:
        if name not in LOADS:
            near = did_you_mean(name, LOADS) or f"; known are {', '.join(LOADS)}"
            parser.error(f"--loads {name}: unknown{near}")
    loads = {name: LOADS[name] for name in names}
    if asked.trace:
        loads = {Path(asked.trace).stem: of_trace(asked.trace)}
    logging.getLogger("vllm").setLevel(logging.ERROR)
    policies, rows = listed(asked.policies), []
    metrics = ""
    for load, prompts_of in loads.items():
        row, metrics = measured(load, policies, prompts_of)
        rows.append(row)
        print(told(row), flush=True)
    print(f"\n/metrics of a server after the last of these:\n{metrics}", flush=True)
    costs_found = costs(asked.turns) if asked.turns else []
    target = asked.json or RECORD
    machine = {"cores": os.cpu_count(), "system": platform.machine()}
    found: dict[str, Any] = {"machine": machine, "bars": BARS, "loads": rows, "costs": costs_found}
    records.write(target, "replay.shadow", **found)
    if asked.json is None:
        PAGE.write_text(page(json.loads(target.read_text(encoding="utf-8"))), encoding="utf-8")
    records.fail_if(missed(found))


def measured(
    name: str, policies: Sequence[str], prompts_of: Callable[..., list[list[int]]]
) -> tuple[dict[str, Any], str]:
    """One load: what the shadows predict, and what runs with that policy and size hit; and what
    ``/metrics`` of a server would have after it.
    """
    prompts, load = prompts_of(), loaded(BLOCKS)
    full, metrics = watched(load, prompts, policies)
    late, _ = watched(loaded(BLOCKS, asynchronous=True), prompts, ["lru"])
    many = prompts_of(STRIDE)
    sampled, _ = watched(loaded(BLOCKS * STRIDE, STRIDE), many, policies, stride=STRIDE)
    row = {
        "load": name,
        "blocks": BLOCKS,
        "running": RUNNING,
        "requests": len(prompts),
        "prompt_tokens": sum(map(len, prompts)),
        "equal_requests": {"synchronous": equal(full), "asynchronous": equal(late)},
        "cells": cells(full, prompts, BLOCKS, 1),
        "sampled": {
            "stride": STRIDE,
            "blocks": BLOCKS * STRIDE,
            "running": RUNNING * STRIDE,
            "requests": len(many),
            "cells": cells(sampled, many, BLOCKS * STRIDE, STRIDE),
        },
    }
    return row, metrics


def loaded(blocks: int, scale: int = 1, **fields: Any) -> Load:
    """A scheduler with that many blocks for requests, ``scale`` times as wide."""
    return Load(blocks=blocks + 1, running=RUNNING * scale, batch=BATCH * scale, **fields)


def cells(
    report: ShadowReport, prompts: list[list[int]], blocks: int, scale: int
) -> list[dict[str, Any]]:
    """Each shadow beside a run with its policy and size, in per cent of the prompt tokens."""
    found = []
    for shadow in report.shadows:
        real = hit_rate(shadow.policy, loaded(shadow.capacity, scale), prompts)
        said = report.hit_rate(shadow)
        found.append(
            {
                "policy": shadow.policy,
                "size": round(shadow.capacity / blocks, 2),
                "run": round(100 * real, 3),
                "shadow": round(100 * said, 3),
                "error": round(100 * (said - real), 3),
            }
        )
    return found


def equal(report: ShadowReport) -> int:
    """Requests for which lru in shadow found what vLLM found."""
    assert report.actual is not None
    return report.actual.equal_requests


def watched(
    load: Load, prompts: list[list[int]], policies: Sequence[str], *, stride: int = 1
) -> tuple[ShadowReport, str]:
    """What shadows count beside one run of vLLM's own lru, and how ``/metrics`` says it."""
    extra = {"policies": list(policies), "sizes": list(SIZES), "stride": stride}
    made = scheduler(with_shadows(load, extra))
    for request in requests(prompts, load.block_size):
        made.add_request(request)
    run(made, load)
    report: ShadowReport = made.connector.report()
    made.connector.shadows.check_integrity()
    made.connector.shutdown()
    if report.failure is not None or report.dropped or report.stride != stride:
        raise SystemExit(f"the shadows cannot be trusted: {report.doubt}")
    return report, exposed(made.vllm_config, report)


def hit_rate(policy: str, load: Load, prompts: list[list[int]]) -> float:
    """What a run with that policy hits."""
    made = scheduler(load)
    put_in(made.kv_cache_manager.block_pool, resolved(policy))
    for request in requests(prompts, load.block_size):
        made.add_request(request)
    return sum(run(made, load).hits.values()) / sum(map(len, prompts))


def told(row: dict[str, Any]) -> str:
    """The worst of a load, in a line a size."""
    same = row["equal_requests"]
    lines = [
        f"{row['load']}: lru equal in {same['synchronous']} and {same['asynchronous']} "
        f"of {row['requests']} requests"
    ]
    for size in SIZES:
        worst, coarse = (
            max(
                (cell for cell in found if cell["size"] == round(size, 2)),
                key=lambda cell: abs(cell["error"]),
            )
            for found in (row["cells"], row["sampled"]["cells"])
        )
        far = f"worst {worst['error']:+.2f} points ({worst['policy']})"
        lines.append(f"  x{size}: {far}, sampled {coarse['error']:+.2f} ({coarse['policy']})")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
