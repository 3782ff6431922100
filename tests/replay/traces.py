"""The shipped traces, read once a session, and replays remembered by their cell."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from kvframe import _core
from kvframe.bench.traces import load


@cache
def trace(name: str) -> _core.Trace:
    return load(name).trace


@cache
def head(name: str, requests: int) -> _core.Trace:
    """The first requests of a trace, by way of Mooncake's own format."""
    whole, rows = trace(name), []
    for i in range(requests):
        at, prompt, output, _, nodes = whole.request(i)
        row = {"timestamp": at, "input_length": prompt, "output_length": output}
        rows.append(json.dumps(row | {"hash_ids": nodes}) + "\n")
    return _core.Trace.parse("".join(rows).encode(), f"head of {name}")


@cache
def replay(name: str, policy: str, capacity: int | None, mode: str) -> dict[str, Any]:
    got: dict[str, Any] = _core.replay(trace(name), policy, capacity, mode)
    return got
