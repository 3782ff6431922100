"""Clocks: wall time, garbage collector off, several rounds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

MICRO = 1e6


class Sample(NamedTuple):
    """What several rounds of one measurement gave, in its unit."""

    best: float
    median: float

    @classmethod
    def of(cls, values: Sequence[float], better: str = "lower") -> Sample:
        """The best is the least, or the largest where ``better`` is ``"higher"``."""
        best = min(values) if better == "lower" else max(values)
        return cls(best, statistics.median(values))


@contextmanager
def quiet() -> Iterator[None]:
    """Collects garbage first, and keeps the collector off inside."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def per_call(call: Callable[[], object], calls: int) -> float:
    """Mean µs of one of ``calls`` calls in a row, the loop's own ~0.02 µs included."""
    with quiet():
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls * MICRO


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    with quiet():
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
