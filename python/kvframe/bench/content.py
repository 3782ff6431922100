"""What a cache holds over time, counted from the event log of a replay.

A block that is findable is of use if a request finds it again before it is evicted. What is of no
use until then takes room that another policy might give to blocks that are; neither hit rates nor
evictions say how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kvframe.bench.outcomes import Counts, Packed
from kvframe.events import EventKind

POINTS = 100
"""Of the trace, evenly spaced, at which the cache is looked at."""

_BEGINS = (EventKind.ALLOCATE, EventKind.RESUME)
_ENDS = (EventKind.EVICT, EventKind.FORGET)


@dataclass(frozen=True, eq=False)
class Content(Packed):
    """What a cache held, an entry a point of the trace.

    Attributes:
        requests: Requests that had begun.
        findable_blocks: Blocks that a request could find.
        reused_blocks: Those of them that a later request found before they were evicted.
    """

    kinds: ClassVar = {"requests": "u4", "findable_blocks": "u4", "reused_blocks": "u4"}

    requests: Counts
    findable_blocks: Counts
    reused_blocks: Counts


def content(events: dict[str, Any], points: int = POINTS) -> Content:
    """Count what the log of a whole replay tells.

    Args:
        events: As `kvframe._core.replay` returns them with ``log``.
        points: The most entries; there are fewer if the trace has fewer requests.
    """
    kind, block = events["kind"], events["block"]
    begun = np.isin(kind, _BEGINS)
    clock = np.cumsum(begun)
    count = int(clock[-1]) if len(clock) else 0
    told = np.isin(kind, (EventKind.STORE, EventKind.HIT, *_ENDS))
    # Sorted by block, then in log order: the entries from one store to the next are one stay.
    order = np.argsort(block[told], kind="stable")
    kind, clock = kind[told][order], clock[told][order]
    stay = np.cumsum(kind == EventKind.STORE) - 1
    came = clock[kind == EventKind.STORE]
    last, went = came.copy(), np.full(len(came), count + 1)
    hit, gone = kind == EventKind.HIT, np.isin(kind, _ENDS)
    np.maximum.at(last, stay[hit & (stay >= 0)], clock[hit & (stay >= 0)])
    went[stay[gone & (stay >= 0)]] = clock[gone & (stay >= 0)]
    at = np.unique(np.linspace(min(1, count), count, min(points, max(count, 1))).astype(np.int64))
    findable = _upto(came, at, count) - _upto(went, at, count)
    reused = _upto(came, at, count) - _upto(last, at, count)
    return Content(*(column.astype(np.uint32) for column in (at, findable, reused)))


def _upto(times: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """How many of ``times`` are at most each of ``at``."""
    upto: np.ndarray = np.cumsum(np.bincount(times, minlength=count + 2))[at]
    return upto
