"""The filter: nothing lately added is missed, few others are found, old ones are forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from kvframe_second_hit.bloom import ForgettingBloom, Keys


def keys(seed: int, count: int) -> Keys:
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), np.uint64)


@pytest.mark.parametrize("capacity", [1, 7, 1000])
@pytest.mark.parametrize("chunk", [1, 64, 5000])
def test_the_last_keys_are_remembered(capacity: int, chunk: int) -> None:
    bloom, added = ForgettingBloom(capacity, 0.01), keys(1, 3000)
    for start in range(0, len(added), chunk):
        bloom.add(added[start : start + chunk])
        if chunk <= capacity:
            last = added[max(0, start + chunk - capacity) : start + chunk]
            assert bloom.has(last).all()


@pytest.mark.parametrize("error", [0.1, 0.01, 0.001])
def test_as_many_strangers_are_found_as_was_asked_for(error: float) -> None:
    bloom = ForgettingBloom(5000, error)
    bloom.add(keys(1, 5000))
    assert bloom.has(keys(2, 20_000)).mean() <= 2 * error


def test_what_is_old_is_forgotten() -> None:
    bloom, old = ForgettingBloom(100, 0.001), keys(1, 50)
    bloom.add(old)
    for seed in range(2, 8):
        bloom.add(keys(seed, 100))
    assert bloom.has(old).mean() < 0.05


def test_keys_added_again_take_no_room() -> None:
    bloom, few, old = ForgettingBloom(100, 0.001), keys(1, 50), keys(2, 50)
    bloom.add(old)
    for _ in range(100):
        bloom.add(few)
    assert bloom.has(old).all()


def test_no_keys_are_no_trouble() -> None:
    bloom = ForgettingBloom(100, 0.01)
    bloom.add(keys(1, 0))
    assert bloom.has(keys(1, 0)).tolist() == []


def test_it_takes_few_bytes_a_key() -> None:
    assert ForgettingBloom(131072, 0.01).nbytes <= 5 * 131072
