"""What ``python -m kvframe_vllm.replay.shadow`` must measure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

BARS = {"same_size": 0.3, "other_size": 1.0, "sampled": 0.5, "cost_percent": 2.0}
"""Points of hit rate between a shadow and a run, at the pool's size, at others, and sampled at any;
per cent of a step of the scheduler."""


def missed(record: dict[str, Any]) -> list[str]:
    """What is worse than its bar, a line each."""
    return [line for row in record["loads"] for line in _of_load(row)] + [
        f"{row['running']} running: {row['share']:.2%} of a step"
        for row in record["costs"]
        if 100 * row["share"] >= BARS["cost_percent"]
    ]


def _of_load(row: dict[str, Any]) -> Iterator[str]:
    for way, count in row["equal_requests"].items():
        if count != row["requests"]:
            yield f"{row['load']}: lru equal in {count} of {row['requests']} requests, {way}"
    for cell in row["cells"]:
        bar = BARS["same_size" if cell["size"] == 1 else "other_size"]
        if abs(cell["error"]) > bar:
            yield f"{_named(row, cell)}: {cell['error']:+.2f} points"
    for cell in row["sampled"]["cells"]:
        if abs(cell["error"]) > BARS["sampled"]:
            yield f"{_named(row, cell)}, sampled: {cell['error']:+.2f} points"


def _named(row: dict[str, Any], cell: dict[str, Any]) -> str:
    return f"{row['load']}, {cell['policy']} x{cell['size']:g}"
