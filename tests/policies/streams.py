"""Streams of single blocks: each its own root, as in caches of other kinds."""

from __future__ import annotations

import json
import random
from functools import cache

from kvframe import _core
from kvframe.bench.traces import load

CAPACITIES = {"skewed": (100, 400), "conversation": (1_000, 4_000)}
REQUESTS = 2_000
"""Of the conversation trace, whose blocks are asked for one by one."""


@cache
def stream(name: str) -> tuple[int, ...]:
    """Ids in the order they are asked for."""
    if name == "conversation":
        trace = load(name).trace
        return tuple(node for i in range(REQUESTS) for node in trace.request(i)[4])
    dice = random.Random(1)
    ids: list[int] = []
    for _ in range(20_000):
        if dice.random() < 0.6:
            ids.append(int(600 ** dice.random()))  # a heavy head
        elif ids and dice.random() < 0.3:
            ids.append(ids[-dice.randrange(1, min(len(ids), 30) + 1)])  # lately asked for
        else:
            ids.append(600 + dice.randrange(600))
    return tuple(ids)


def next_uses(ids: tuple[int, ...]) -> list[int]:
    """The place where each id comes next, or 2^62."""
    after: dict[int, int] = {}
    found = []
    for at in reversed(range(len(ids))):
        found.append(after.get(ids[at], 2**62))
        after[ids[at]] = at
    return found[::-1]


@cache
def trace(name: str) -> _core.Trace:
    """The same as requests of one block each."""
    rows = (
        {"timestamp": at, "input_length": 1, "output_length": 1, "hash_ids": [node]}
        for at, node in enumerate(stream(name))
    )
    return _core.Trace.parse("\n".join(map(json.dumps, rows)).encode(), f"{name}.jsonl", 1)
