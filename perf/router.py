"""The router's index: events of many workers, and how far each reaches into a prompt."""

from __future__ import annotations

import time

import numpy as np

from kvframe import RouterIndex
from perf import floors
from perf.measure import per_call, quiet
from perf.work import Round, Work

BLOCKS, WORKERS = 64, 8
"""Blocks of an event and of a prompt, and workers."""


def fed(events: int) -> tuple[RouterIndex, float]:
    """An index fed with events that each store 64 blocks, and blocks a second."""
    rng = np.random.default_rng(0)
    index = RouterIndex(capacity=events * BLOCKS)
    for worker in range(WORKERS):
        index.add_worker(worker)
    hashes = rng.integers(1, 2**63, (events, BLOCKS), np.uint64)
    with quiet():
        start = time.perf_counter()
        for event, row in enumerate(hashes):
            index.stored(event % WORKERS, row)
        took = time.perf_counter() - start
    return index, events * BLOCKS / took


def ingest(quick: bool) -> Round:
    """Rounds of such events; million blocks a second."""
    return lambda: fed(50 if quick else 4_000)[1] / 1e6


def match(quick: bool) -> Round:
    """Rounds of a match of 64 blocks that one worker holds, among others that it does not."""
    index, _ = fed(50 if quick else 4_000)
    hashes = np.random.default_rng(1).integers(1, 2**63, BLOCKS, np.uint64)
    index.stored(3, hashes)
    if index.match_hashes(hashes)[3].gpu != BLOCKS:
        raise AssertionError("not all of the prompt is held")
    return lambda: per_call(lambda: index.match_hashes(hashes), 200 if quick else 5_000)


WORKS = (
    Work(
        "router_ingest",
        ingest,
        bar=5.0,
        floor=lambda: BLOCKS / floors.scattered_writes_64(),
        floor_is="64 NumPy writes to scattered places of two columns",
        unit="M/s",
        better="higher",
        peer="router_ingest",
        side="for_dynamo.py",
    ),
    Work(
        "router_match_64",
        match,
        bar=3.0,
        floor=floors.two_copies_of_64,
        floor_is="two NumPy calls that each move 64 int32",
        peer="router_match_64",
        side="for_dynamo.py",
    ),
)
