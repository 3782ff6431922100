"""Traces made for a test, and requests of the bench in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvframe import _core
from kvframe.bench.job import Job, Request
from kvframe.bench.run import Outcome
from kvframe.bench.traces import Source

BLOCK = 16


def lines(dice: np.random.Generator, sessions: int, shared: int = 2) -> list[dict[str, Any]]:
    """Rows of sessions, a dozen of them side by side, behind ``shared`` blocks that all have."""
    order = np.repeat(np.arange(sessions), dice.integers(1, 6, sessions))
    order = order[np.argsort(order + dice.uniform(0, 12, len(order)))]
    blocks = {int(one): 0 for one in range(sessions)}
    rows = []
    for at, one in enumerate(order.tolist()):
        blocks[one] += int(dice.integers(1, 5))
        ids = [*range(shared), *(1000 * (one + 1) + i for i in range(blocks[one]))]
        row = {"timestamp": 100 * at, "input_length": BLOCK * len(ids) + 5, "output_length": 9}
        rows.append(row | {"hash_ids": ids, "session_id": one, "block_size": BLOCK})
    return rows


def text(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def source(dice: np.random.Generator, sessions: int = 60) -> Source:
    return Source("made", "made", _core.Trace.parse(text(lines(dice, sessions)), "made", None))


def write(path: Path, sessions: int = 60, seed: int = 0) -> Path:
    path.write_bytes(text(lines(np.random.default_rng(seed), sessions)))
    return path


def ran(**asked: Any) -> tuple[Job, Outcome]:
    """A run in this process; lists may be single texts."""
    lists: dict[str, Any] = {k: [v] if isinstance(v, str) else v for k, v in asked.items()}
    lists["quiet"] = True
    job = Job(Request(**lists))
    return job, job.run([])
