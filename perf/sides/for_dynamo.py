"""Dynamo's router index, from Python. Run by `perf.peers.Peer`.

Needs a Python with ai-dynamo-runtime; written against 1.6.1. Events go in as its RadixTree takes
them, made before the clock starts.
"""

from __future__ import annotations

import gc
import json
import random
import time
from importlib.metadata import version
from typing import Any

from _serve import serve
from dynamo._core import RadixTree

BLOCKS, WORKERS = 64, 8


def event(number: int, hashes: list[int]) -> bytes:
    """One event that stores a chain of blocks."""
    blocks = [{"block_hash": h, "tokens_hash": h, "mm_extra_info": None} for h in hashes]
    stored = {"parent_hash": None, "start_position": None, "blocks": blocks}
    return json.dumps({"event_id": number, "data": {"stored": stored}, "dp_rank": 0}).encode()


def fed(events: int) -> tuple[Any, float]:
    """A tree fed with events, and million blocks a second."""
    draw = random.Random(0)
    rows = [[draw.randrange(1, 2**63) for _ in range(BLOCKS)] for _ in range(events)]
    ready = [event(number, row) for number, row in enumerate(rows)]
    tree = RadixTree()
    start = time.perf_counter()
    for number, each in enumerate(ready):
        tree.apply_event(number % WORKERS, each)
    return tree, events * BLOCKS / (time.perf_counter() - start) / 1e6


def match(quick: bool) -> float:
    """µs of a match of 64 blocks that one worker holds."""
    tree, _ = fed(50 if quick else 4_000)
    draw = random.Random(1)
    hashes = [draw.randrange(1, 2**63) for _ in range(BLOCKS)]
    tree.apply_event(3, event(1_000_000, hashes))
    if BLOCKS not in tree.find_matches(hashes).scores.values():
        raise AssertionError("not all of the prompt is held")
    calls = 200 if quick else 5_000
    gc.disable()
    start = time.perf_counter()
    for _ in range(calls):
        tree.find_matches(hashes)
    return (time.perf_counter() - start) / calls * 1e6


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """A round of a work."""
    quick = asked["quick"]
    if asked["work"] == "router_ingest":
        return {"value": fed(50 if quick else 4_000)[1]}
    return {"value": match(quick)}


serve(f"Dynamo {version('ai-dynamo-runtime')}", answer)
