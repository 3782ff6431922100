"""The few copies of a decode step: written in a row if they may all run at once, else left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe._core import few_copies

BLOCKS, SIZE = 12, 16


def asked(src: Any, dst: Any, tokens: Any = None, *, most: int = 128) -> list[list[int]]:
    row = np.full(3 * most, -7, np.int32)
    count = few_copies(src, dst, tokens, row, block_size=SIZE, blocks=BLOCKS)
    assert (row[3 * count :] == -7).all() or not count
    return row[: 3 * count].reshape(-1, 3).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_those_that_may_run_at_once_are_written(dtype: Any) -> None:
    draw = np.random.default_rng(4)
    written = 0
    for _ in range(400):
        n = int(draw.integers(0, 6))
        copies = draw.integers(0, BLOCKS, (n, 3)).astype(dtype)
        sources, targets = set(copies[:, 0].tolist()), copies[:, 1].tolist()
        at_once = len(set(targets)) == n and not sources & set(targets)
        wanted = copies.tolist() if at_once else []
        assert asked(*copies.T) == wanted
        whole = [[s, d, SIZE] for s, d, _ in wanted]
        assert asked(copies[:, 0], copies[:, 1]) == whole
        written += bool(wanted)
    assert written > 100


def test_what_is_out_of_range_or_of_another_type_is_left() -> None:
    right = np.array([1]), np.array([2]), np.array([SIZE])
    assert asked(*right) == [[1, 2, SIZE]]
    for at, bad in ((0, -1), (0, BLOCKS), (1, -1), (1, 2**32 + 2), (2, -1), (2, SIZE + 1)):
        assert asked(*(np.array([bad]) if i == at else a for i, a in enumerate(right))) == []
    for at in range(3):
        for other in ([1], right[at].astype(np.float32), right[at][:, None], np.array([1, 3])):
            assert asked(*(other if i == at else a for i, a in enumerate(right))) == []
    assert asked(np.arange(3), np.arange(3, 6), most=2) == []


def test_arrays_that_begin_inside_a_word_are_read() -> None:
    within = np.frombuffer(bytes(1) + np.array([5, 7], np.int32).tobytes(), np.int32, 2, 1)
    assert not within.flags.aligned
    assert asked(within, np.array([1, 2], np.int32)) == [[5, 1, SIZE], [7, 2, SIZE]]
