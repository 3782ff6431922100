"""A small trace that needs no file, and the servers that the tests share."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from kvframe import _core

BLOCK = 16
ENGINE = ("options", "admission", "admission_options", "matcher", "tiers", "links", "moves")
"""What a server has of its own; the rest is said of all."""


def rows() -> str:
    """Nine sessions whose prompts grow turn by turn, 120 requests, one every 23 ms."""
    lines = []
    for i in range(120):
        session, turn = i * 7 % 9, i // 9
        tokens = 40 + 37 * (i * i % 11) + 24 * (turn % 5)
        ids = [0] + [1000 * session + at for at in range(1, tokens // BLOCK)]
        row = {"timestamp": 23 * i, "input_length": tokens, "output_length": 1 + i * 13 % 40}
        lines.append(json.dumps(row | {"hash_ids": ids}))
    return "\n".join(lines) + "\n"


@cache
def small() -> _core.Trace:
    return _core.Trace.parse(rows().encode(), "small", BLOCK)


@cache
def roofline() -> _core.StepProfile:
    return _core.StepProfile.roofline(
        host=2e-4, weights=4e-3, token=2e-5, kv_token=3e-8, pair=2e-10
    )


def serve(trace: _core.Trace, policy: str, capacity: int, **server: Any) -> dict[str, Any]:
    profile = server.pop("profile", None) or roofline()
    options = {name: server.pop(name) for name in ENGINE if name in server}
    engine = {"policy": policy, **options}
    got: dict[str, Any] = _core.serve(trace, [engine], capacity, profile, **server)
    return got
