"""``python -m kvframe_vllm.replay.shadow``: how far shadows are from runs with that policy.

Each load is served once by vLLM's scheduler under its own lru, with shadows beside it, and then
once more for every policy and size that a shadow had. Writes ``results/shadow.json`` and the tables
of ``SHADOW.md`` in the folder it is called in.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvframe.shadow import ShadowReport
from kvframe_vllm.choice import resolved
from kvframe_vllm.install import put_in
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.loads import LOADS
from kvframe_vllm.replay.shadow_page import page

POLICIES = (
    *("lru", "lfu", "lfuda", "slru", "arc"),
    *("s3-fifo", "w-tinylfu", "2q", "lirs", "mq"),
)
SIZES = (0.5, 1.0, 2.0)
BLOCKS = {"families": 501, "chat": 501, "documents": 501}
"""Of the real pool, the null block included."""

STRIDE = 8
RECORD, PAGE = Path("results") / "shadow.json", Path("SHADOW.md")


def main() -> None:
    """Measure, record, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay.shadow")
    parser.add_argument("--policies", default=",".join(POLICIES), help="names by comma")
    parser.add_argument("--loads", default=",".join(LOADS), help="names by comma")
    parser.add_argument("--running", type=int, default=8, help="requests that run at once")
    parser.add_argument("--json", type=Path, help="the record; by default results/shadow.json")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    policies, rows = asked.policies.split(","), []
    for load in asked.loads.split(","):
        rows.append(measured(load, policies, asked.running))
        print(told(rows[-1]), flush=True)
    record = {
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python -m kvframe_vllm.replay.shadow", *sys.argv[1:]]),
        "python": platform.python_version(),
        "versions": {
            name: importlib.metadata.version(name) for name in ("vllm", "kvframe", "kvframe-vllm")
        },
        "loads": rows,
    }
    target = asked.json or RECORD
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if asked.json is None:
        PAGE.write_text(page(json.loads(target.read_text(encoding="utf-8"))), encoding="utf-8")


def measured(name: str, policies: Sequence[str], running: int) -> dict[str, Any]:
    """One load: what the shadows predict, and what runs with that policy and size hit."""
    prompts, load = LOADS[name](), Load(blocks=BLOCKS[name], running=running)
    tokens = sum(map(len, prompts))
    full = watched(load, prompts, policies)
    sampled = watched(load, prompts, policies, stride=STRIDE)
    asynchronous = watched(
        Load(blocks=BLOCKS[name], running=running, asynchronous=True), prompts, ["lru"]
    )
    cells = []
    for shadow, coarse in zip(full.shadows, sampled.shadows, strict=True):
        real = hit_rate(shadow.policy, shadow.capacity + 1, running, prompts, tokens)
        cells.append(
            {
                "policy": shadow.policy,
                "size": round(shadow.capacity / (BLOCKS[name] - 1), 2),
                "run": round(100 * real, 3),
                "shadow": round(100 * full.hit_rate(shadow), 3),
                "error": round(100 * (full.hit_rate(shadow) - real), 3),
                "sampled_error": round(100 * (sampled.hit_rate(coarse) - real), 3),
            }
        )
    return {
        "load": name,
        "blocks": BLOCKS[name],
        "running": running,
        "requests": len(prompts),
        "prompt_tokens": tokens,
        "equal_requests": {
            "synchronous": equal(full),
            "asynchronous": equal(asynchronous),
        },
        "cells": cells,
    }


def equal(report: ShadowReport) -> int:
    """Requests for which lru in shadow found what vLLM found."""
    assert report.actual is not None
    return report.actual.equal_requests


def watched(
    load: Load, prompts: list[list[int]], policies: Sequence[str], *, stride: int = 1
) -> ShadowReport:
    """What shadows count beside one run of vLLM's own lru."""
    extra = {"policies": list(policies), "sizes": list(SIZES), "stride": stride}
    made = scheduler(with_shadows(load, extra))
    for request in requests(prompts, load.block_size):
        made.add_request(request)
    run(made, load)
    report: ShadowReport = made.connector.report()
    made.connector.shadows.check_integrity()
    made.connector.shutdown()
    if report.failure is not None or report.dropped:
        raise SystemExit(f"the shadows cannot be trusted: {report.doubt}")
    return report


def with_shadows(load: Load, extra: dict[str, Any]) -> Load:
    """The same load, watched."""
    connector = {
        "kv_connector": "ShadowConnector",
        "kv_connector_module_path": "kvframe_vllm.shadow",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": extra,
    }
    return Load(**{**vars(load), "connector": connector})


def hit_rate(
    policy: str, blocks: int, running: int, prompts: list[list[int]], tokens: int
) -> float:
    """What a run with that policy and size hits."""
    load = Load(blocks=blocks, running=running)
    made = scheduler(load)
    put_in(made.kv_cache_manager.block_pool, resolved(policy))
    for request in requests(prompts, load.block_size):
        made.add_request(request)
    return sum(run(made, load).hits.values()) / tokens


def told(row: dict[str, Any]) -> str:
    """The worst of a load, in a line."""
    same = row["equal_requests"]
    lines = [
        f"{row['load']}: lru equal in {same['synchronous']} and {same['asynchronous']} "
        f"of {row['requests']} requests"
    ]
    for size in SIZES:
        cells = [cell for cell in row["cells"] if cell["size"] == round(size, 2)]
        worst = max(cells, key=lambda cell: abs(cell["error"]))
        coarse = max(abs(cell["sampled_error"]) for cell in cells)
        far = f"worst {worst['error']:+.2f} points ({worst['policy']})"
        lines.append(f"  x{size}: {far}, sampled {coarse:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
