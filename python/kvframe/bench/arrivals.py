"""Varies a trace and keeps its requests in order: another load, other times, or larger blocks.

``load`` divides all times: 2 is twice as many requests a second. A seed draws the gaps between
arrivals anew, each from an exponential distribution around the mean of the 64 gaps nearest to it,
so that bursts and lulls stay where they were. A trace whose times stand in steps, such as
Mooncake's of 3 seconds, gets single arrivals this way. Order is kept, so what can be reused stays
the same.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kvframe.bench.outcomes import Sessions
from kvframe.bench.traces import Source
from kvframe.errors import ConfigError, UsageError

_NEAR = 64


def varied(source: Source, load: float, seed: int) -> Source:
    """The same source under a load, with arrivals of a seed; seed 0 keeps the trace's own.

    Raises:
        ConfigError: The load is no positive number, or the seed is negative.
    """
    if not 0 < load < float("inf"):
        raise ConfigError(f"--load {load}: must be a positive number")
    if seed < 0:
        raise ConfigError(f"--arrival-seed {seed}: must be 0 or more")
    if load == 1 and seed == 0:
        return source
    times = source.facts.timestamp_ms
    if seed:
        times = redrawn(times, seed)
    first = times[0] if len(times) else 0
    trace = source.trace.retimed(np.rint(first + (times - first) / load).astype(np.int64))
    return dataclasses.replace(source, trace=trace, load=load, arrival_seed=seed)


def redrawn(times: Sessions, seed: int) -> Sessions:
    """Arrivals in milliseconds, of the same number, order and span."""
    if len(times) < 3:
        return times
    gaps = np.diff(times).astype(np.float64)
    width = min(_NEAR, len(gaps))
    sums = np.concatenate([[0.0], np.cumsum(gaps)])
    start = np.clip(np.arange(len(gaps)) - width // 2, 0, len(gaps) - width)
    near = (sums[start + width] - sums[start]) / width
    drawn = np.random.default_rng(seed).exponential(near)
    total = drawn.sum()
    if total:
        drawn *= gaps.sum() / total
    moved: Sessions = np.rint(times[0] + np.concatenate([[0.0], np.cumsum(drawn)])).astype(np.int64)
    return moved


def coarsened(source: Source, factor: int) -> Source:
    """The same source in blocks of ``factor`` of its own.

    Raises:
        ConfigError: Such blocks are too large, or ``factor`` is below 1.
    """
    if factor == 1:
        return source
    try:
        trace = source.trace.coarsened(factor)
    except (UsageError, OverflowError) as error:
        raise ConfigError(f"--block-factor {factor}: {error}") from None
    return dataclasses.replace(source, trace=trace, block_factor=factor, as_read=source.trace)
