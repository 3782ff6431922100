"""What is safe, and that scores tell all ticks apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kvframe_tlru import Options, TailOptimizedLru

from kvframe.policies import Candidates


def score(
    last_use: list[int], depth: list[int], reach: list[int], block_size: int = 16, spare: int = 100
) -> list[float]:
    policy = TailOptimizedLru(Options(threshold=spare + 7, next_prompt_estimate=7))
    columns: dict[str, npt.NDArray[Any]] = {
        "last_use": np.array(last_use, np.uint64),
        "depth": np.array(depth, np.uint32),
        "reach": np.array(reach, np.uint32),
    }
    out = np.full(len(last_use), np.nan)
    policy.score(Candidates(now=2**40, block_size=block_size, columns=columns), out)
    return out.tolist()


@pytest.mark.parametrize(
    ("depth", "reach", "safe"),
    [
        (0, 100, True),  # all of it fits
        (0, 101, False),
        (10, 260, True),  # 160 tokens stay cached, 100 are computed again
        (10, 261, False),
        (50, 16, True),  # never below nothing
        (2**28 - 1, 2**32 - 1, True),  # at the end of the longest request there can be
        (0, 2**32 - 1, False),
    ],
)
def test_safe_means_that_the_rest_fits_the_budget(depth: int, reach: int, safe: bool) -> None:
    (got,) = score([5], [depth], [reach])
    assert (got < 0) == safe


def test_token_counts_do_not_wrap_at_32_bits() -> None:
    (got,) = score([5], [2**20], [2**32 - 1], block_size=65536)
    assert got < 0


def test_safe_ones_first_and_the_least_recently_used_of_each() -> None:
    ages = [1, 2, 2**52, 2**52 + 1]
    got = score(ages * 2, [0] * 8, [101] * 4 + [100] * 4)
    assert np.argsort(got).tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
    assert len(set(got)) == 8
