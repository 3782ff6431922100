"""At fixed rates a server is the replay by the clock, and that equals an independent one."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import _core
from kvframe.bench.server.summary import quantiles

from .traffic import serve, small

# By a replay in plain Python, written apart from this one: 20,000 prompt tokens a second, 5 ms a
# token. Hit tokens; mean, median and 99th percentile of the time to the first token; the end of the
# last prompt.
REFERENCE = {
    ("lru", 60): (1904, "0.825647", "0.856400", "1.579200", "4.313850"),
    ("lru", 120): (11024, "0.007082", "0.006000", "0.021450", "2.746000"),
    ("lru", 300): (23024, "0.002013", "0.000600", "0.017850", "2.737200"),
    ("lfu", 120): (12640, "0.006422", "0.005250", "0.020250", "2.746800"),
    ("fifo", 120): (10032, "0.007627", "0.006750", "0.022650", "2.749200"),
}


@pytest.mark.parametrize(("policy", "capacity"), REFERENCE)
def test_fixed_rates_equal_the_reference(policy: str, capacity: int) -> None:
    profile = _core.StepProfile.fixed(prefill=20_000.0, decode=0.005)
    raw = serve(small(), policy, capacity, profile=profile)
    ttft = quantiles(raw["first_token"] - raw["arrival"])
    got = (
        int(raw["cached_tokens"].sum()),
        f"{ttft.mean:.6f}",
        f"{ttft.p50:.6f}",
        f"{ttft.p99:.6f}",
        f"{raw['first_token'].max():.6f}",
    )
    assert got == REFERENCE[policy, capacity]


def test_they_equal_timed_mode() -> None:
    profile = _core.StepProfile.fixed(prefill=50_000.0, decode=0.020)
    raw = serve(small(), "lru", 120, profile=profile)
    timed = _core.replay(small(), "lru", 120, "timed")
    assert raw["cached_tokens"].sum() == timed["hit_tokens"]
    assert np.mean(raw["first_token"] - raw["arrival"]) == pytest.approx(
        timed["mean_ttft_seconds"], rel=1e-12
    )
