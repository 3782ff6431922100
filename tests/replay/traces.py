"""The shipped traces, read once a session, and replays remembered by their cell."""

from __future__ import annotations

from functools import cache
from typing import Any

from kvframe import _core
from kvframe.bench.traces import load


@cache
def trace(name: str) -> _core.Trace:
    return load(name).trace


@cache
def replay(name: str, policy: str, capacity: int | None, mode: str) -> dict[str, Any]:
    got: dict[str, Any] = _core.replay(trace(name), policy, capacity, mode)
    return got
