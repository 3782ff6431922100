"""The order of retention values, against the formula read one block at a time; and the kit."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from kvframe_pensieve import Options, RetentionValue

import kvframe
from kvframe.policies import Candidates
from kvframe.testing import EvictionConformance


class TestConformance(EvictionConformance):
    policy = "pensieve"
    budget_us = 2000.0  # suites run beside others; `kvframe bench check` holds it to 100


class TestConformanceOfAllAttention(EvictionConformance):
    policy = "pensieve"
    options = {"attention_blocks": 1}  # noqa: RUF012
    budget_us = 2000.0


def value(depth: int, last_use: int, now: int, attention_blocks: int) -> Fraction:
    """Cost by idle time, exactly."""
    return (1 + Fraction(depth, attention_blocks)) / (now - last_use + 1)


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_the_papers_values(seed: int) -> None:
    dice = np.random.default_rng(seed)
    for attention_blocks in (1, 7, 2048):
        now = int(dice.integers(1, 10_000))
        last_use = dice.integers(0, now + 1, 50).astype(np.uint64)
        depth = dice.integers(0, 5000, 50).astype(np.uint32)
        scores = np.empty(50)
        policy = RetentionValue(Options(attention_blocks=attention_blocks))
        policy.score(Candidates(now, 16, {"last_use": last_use, "depth": depth}), scores)
        expected = [
            value(*row, now, attention_blocks)
            for row in zip(depth.tolist(), last_use.tolist(), strict=True)
        ]
        assert scores == pytest.approx([float(v) for v in expected], rel=1e-12)
        order = [expected[place] for place in np.argsort(scores)]
        assert all(a <= b or float(a) == float(b) for a, b in pairwise(order))


def serve(manager: kvframe.KVCacheManager, first: int, blocks: int) -> None:
    grant = manager.allocate(np.arange(first, first + 4 * blocks))
    manager.commit(grant.seq, 4 * blocks)
    manager.release(grant.seq)


def test_a_dear_tail_outlives_a_cheap_prompt_of_later() -> None:
    """Under LRU the long conversation would lose its tail to two newer prompts of one block."""
    manager = kvframe.KVCacheManager.from_toml(
        cache={"block_size": 4, "capacity": 10},
        eviction={
            "policy": "pensieve",
            "on_error": "raise",
            "options": {"attention_blocks": 1},
        },
    )
    serve(manager, 0, 8)
    serve(manager, 100, 1)
    serve(manager, 200, 1)
    serve(manager, 300, 1)
    assert manager.lookup(np.arange(33)).tokens == 32
    assert manager.lookup(np.arange(100, 105)).tokens == 0
    manager.check_integrity()


def test_no_option_is_taken_that_divides_by_zero() -> None:
    options = {"attention_blocks": 0}
    with pytest.raises(kvframe.ConfigError, match="attention_blocks = 0: must be between 1"):
        kvframe.KVCacheManager.from_toml(eviction={"policy": "pensieve", "options": options})
