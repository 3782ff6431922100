"""``python -m kvframe_vllm.replay.demonstration``: watched, predicted, switched, measured.

vLLM's scheduler serves a mixed load (`kvframe_vllm.replay.mixed`) under lru, which is stock to the
block. Shadows watch beside it. Half way, the policy that hits most in shadow takes the pool over in
mid-run. Writes what was predicted and what was measured, window by window, as JSON, and draws it if
matplotlib is there.

The prediction for a window is what the shadow of that policy hit in it; its band reaches to shadows
of the same policy with a tenth fewer and a tenth more blocks. The measured line is what requests
found in vLLM's own pool.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
from pathlib import Path
from typing import Any

from kvframe.shadow import ShadowReport
from kvframe_vllm.choice import listed
from kvframe_vllm.command import one_line
from kvframe_vllm.replay import records
from kvframe_vllm.replay.engine import Load, requests, run, scheduler
from kvframe_vllm.replay.mixed import OUTPUT, SHARES, mixed
from kvframe_vllm.replay.shadowed import with_shadows
from kvframe_vllm.switch import switch

FIRST = "lru"
SIZES = (0.9, 1.0, 1.1)
"""Of the shadows: the prediction, and its band."""

WAITING = 4
"""Requests that wait at a time: the others have not come yet."""


@one_line
def main() -> None:
    """Serve, switch, write the record, draw."""
    parser = argparse.ArgumentParser(
        prog="python -m kvframe_vllm.replay.demonstration", description=__doc__
    )
    parser.add_argument("--policies", default="lfu,slru,arc,s3-fifo,w-tinylfu", help="by comma")
    parser.add_argument("--requests", type=int, default=1600)
    parser.add_argument("--blocks", type=int, default=700, help="blocks of the pool")
    parser.add_argument("--window", type=int, default=100, help="requests of a point")
    parser.add_argument("--json", type=Path, default=records.place("demonstration"))
    parser.add_argument("--figure", type=Path, default=Path("results/demonstration.svg"))
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    record = demonstrated(asked)
    records.write(asked.json, "replay.demonstration", **record)
    print(told(record))
    if importlib.util.find_spec("matplotlib") is None:
        print("no figure: matplotlib is not installed (pip install 'kvframe[plot]')")
        return
    from kvframe_vllm.replay.demonstration_figure import draw

    draw(record, asked.figure)
    print(f"drawn into {asked.figure}")


def demonstrated(asked: argparse.Namespace) -> dict[str, Any]:
    """Serve the load, and switch half way."""
    policies = [FIRST, *listed(asked.policies)]
    extra = {"policies": policies, "sizes": list(SIZES), "policy": FIRST}
    load = with_shadows(Load(blocks=asked.blocks), extra)
    made = scheduler(load)
    waiting = requests(mixed(asked.requests), load.block_size, OUTPUT)[::-1]
    reports: list[ShadowReport] = []
    chosen: dict[str, Any] = {}

    def before(step: int) -> None:
        while waiting and len(made.waiting) < WAITING:
            made.add_request(waiting.pop())
        begun = asked.requests - len(waiting) - len(made.waiting)
        if begun >= asked.window * (len(reports) + 1):
            reports.append(made.connector.report())
        if not chosen and begun >= asked.requests / 2:
            now = made.connector.report()
            best = max(of_size(now, 1.0), key=now.hit_rate)
            chosen.update(policy=best.policy, window=len(reports), step=step)
            if not switch(made.kv_cache_manager.block_pool, best.policy):
                raise SystemExit(f"kvframe does not switch to {best.policy}")

    before(0)
    done = run(made, load, before)
    last = made.connector.report()
    if reports and requests_of(last) - requests_of(reports[-1]) < asked.window // 2:
        reports.pop()  # too few are left for a window of their own
    reports.append(last)
    made.connector.shutdown()
    return {
        "blocks": asked.blocks,
        "requests": len(done.hits),
        "steps": done.steps,
        "load": SHARES,
        "window": asked.window,
        "switched": chosen,
        "windows": [
            window_of(one, two, chosen["policy"])
            for one, two in zip([None, *reports], reports, strict=False)
            if one is None or requests_of(two) > requests_of(one)
        ],
    }


def of_size(report: ShadowReport, size: float) -> list[Any]:
    """The shadows of that share of the pool: they come policy by policy, in the order of sizes."""
    at = SIZES.index(size)
    return [*report.shadows][at :: len(SIZES)]


def requests_of(report: ShadowReport) -> int:
    """Requests that the engine has begun."""
    return min(shadow.requests for shadow in report.shadows)


def window_of(before: ShadowReport | None, after: ShadowReport, policy: str) -> dict[str, Any]:
    """Hit rates of the requests between two reports: measured, and in shadow."""

    def rate(name: str, size: float, field: str = "hit_tokens") -> float:
        [now] = [one for one in of_size(after, size) if one.policy == name]
        was = [] if before is None else [one for one in of_size(before, size) if one.policy == name]
        hits = getattr(now, field) - sum(getattr(one, field) for one in was)
        tokens = now.query_tokens - sum(one.query_tokens for one in was)
        return float(round(hits / max(tokens, 1), 4))

    return {
        "requests": requests_of(after),
        "measured": rate(FIRST, 1.0, "found_tokens"),
        "lru": rate(FIRST, 1.0),
        "predicted": rate(policy, 1.0),
        "band": [rate(policy, SIZES[0]), rate(policy, SIZES[-1])],
    }


def told(record: dict[str, Any]) -> str:
    """Both halves in two lines."""
    at, policy = record["switched"]["window"], record["switched"]["policy"]
    lines = []
    for name, rows in (("before", record["windows"][:at]), ("after", record["windows"][at:])):
        means = {
            key: sum(row[key] for row in rows) / max(len(rows), 1)
            for key in ("measured", "lru", "predicted")
        }
        lines.append(
            f"{name} the switch to {policy}: measured {means['measured']:.4f}, "
            f"lru in shadow {means['lru']:.4f}, {policy} in shadow {means['predicted']:.4f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
