"""What a server's /metrics text says of its prefix cache and of the time to the first token.

vLLM counts both since it was started: send the requests that were simulated to a fresh one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from kvframe.errors import UsageError

HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
TTFT = "vllm:time_to_first_token_seconds"

_SAMPLE = re.compile(r"(?P<name>[^\s{]+)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?")
_BOUND = re.compile(r'(?:^|,)le="([^"]+)"')


class Scraped(NamedTuple):
    """Of all engines of the text together.

    Attributes:
        requests: That have had a first token.
        hit: Prompt tokens found, over all.
        ttft_mean: Seconds.
        ttft_p50, ttft_p95: Seconds, interpolated within a bucket of the histogram.
    """

    requests: int
    hit: float
    ttft_mean: float
    ttft_p50: float
    ttft_p95: float


def scraped(text: str, name: str) -> Scraped:
    """Read the text; ``name`` is its file's.

    Raises:
        UsageError: It is no such text, lacks a family, or counts nothing.
    """
    sums: dict[str, float] = defaultdict(float)
    buckets: dict[float, float] = defaultdict(float)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _SAMPLE.fullmatch(line.strip())
        try:
            value = float(found["value"]) if found else None
        except ValueError:
            value = None
        if found is None or value is None:
            raise UsageError(f"{name}:{number}: no sample of a page of metrics: {line[:60]!r}")
        sums[found["name"]] += value
        bound = _BOUND.search(found["labels"] or "")
        if found["name"] == f"{TTFT}_bucket" and bound is not None:
            buckets[float(bound[1])] += value
    for family in (HITS, QUERIES, f"{TTFT}_sum", f"{TTFT}_count", f"{TTFT}_bucket"):
        if family not in sums:
            raise UsageError(f"{name}: no {family}: is this the /metrics text of vLLM?")
    count, asked = sums[f"{TTFT}_count"], sums[QUERIES]
    if not count or not asked:
        raise UsageError(f"{name}: counts no requests yet")
    return Scraped(
        int(count),
        sums[HITS] / asked,
        sums[f"{TTFT}_sum"] / count,
        _quantile(buckets, 0.50),
        _quantile(buckets, 0.95),
    )


def _quantile(buckets: dict[float, float], share: float) -> float:
    """A quantile of a histogram whose buckets count all below their bound."""
    bounds = sorted(buckets)
    wanted = share * buckets[bounds[-1]]
    low, below = 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= wanted:
            if bound == float("inf"):
                return low
            here = buckets[bound] - below
            return low + (bound - low) * ((wanted - below) / here if here else 1.0)
        low, below = bound, buckets[bound]
    return low
