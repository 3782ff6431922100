"""makarna's manager: its scenarios (MK) and what it got wrong (MK-B). Blocks of 4 tokens.

It keeps a pool a layer; kvframe's layer groups share one, so "a layer" here is a group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import (
    MMItem,
    UsageError,
)
from kvframe.policies import BatchedEviction

from ..manager.helpers import registry
from .helpers import available, cached, found, manager, words

# --- MK: its scenarios ----------------------------------------------------------------------------


@pytest.mark.scenario("MK-2")
def test_nine_tokens_that_share_eight_take_one_block() -> None:
    kv = manager(8)
    kv.commit(kv.allocate(list(range(8))).seq, 8)
    used = kv.counts().referenced
    assert kv.allocate(list(range(9))).cached_tokens == 8
    assert kv.counts().referenced - used == 1


@pytest.mark.scenario("MK-5", "MK-B4", "MK-B5")
@pytest.mark.parametrize("steps", [[18], [6, 18], [7, 8, 9, 18], [5, 13, 18], [*range(6, 19)]])
def test_four_blocks_are_cached_of_eighteen_tokens_however_they_come(steps: list[int]) -> None:
    kv = manager(8)
    text = list(range(18))
    seq = kv.allocate(text[:6], chunk=6).seq
    for until in steps:
        if (slots := kv.lengths(seq).slots) < until:
            kv.append(seq, text[slots:until])
        kv.commit(seq, until)
        assert found(kv, text[: until // 4 * 4]) == until // 4 * 4
    assert kv.stats.counters()["stored"] == 4
    assert kv.allocate([*text, 99]).cached_tokens == 16


@pytest.mark.scenario("MK-B5")
def test_ids_that_come_late_hold_back_only_their_own_blocks() -> None:
    kv = manager(8)
    seq = kv.allocate(list(range(6))).seq
    kv.append_placeholders(seq, 10)
    kv.fill_placeholders(seq, [6, 7, 8])
    kv.commit(seq, 9)
    assert found(kv, list(range(8))) == 8
    with pytest.raises(UsageError):
        kv.commit(seq, 12)
    kv.fill_placeholders(seq, list(range(9, 16)))
    kv.commit(seq, 16)
    assert found(kv, list(range(16))) == 16


# --- MK-B: what it got wrong ----------------------------------------------------------------------


SPACES: list[dict[str, Any]] = [
    {},
    {"cache_salt": "a"},
    {"lora_name": "a"},
    {"mm_items": [MMItem(0, 2, b"cat")]},
    {"mm_items": [MMItem(0, 2, b"dog")]},
]


@pytest.mark.scenario("MK-B16", "VT45", "V18")
@pytest.mark.parametrize("mine", range(len(SPACES)))
def test_salt_adapter_and_items_are_part_of_a_key(mine: int) -> None:
    kv = manager(8)
    cached(kv, range(8), **SPACES[mine])
    for other, space in enumerate(SPACES):
        assert kv.lookup(list(range(9)), **space).tokens == (8 if other == mine else 0)


@pytest.mark.scenario("MK-B17", "CB-B7")
def test_which_block_dies_is_up_to_a_policy() -> None:
    class YoungestFirst(BatchedEviction):
        def score(self, candidates: Any, out: Any) -> None:
            out[:] = -candidates.columns["last_use"].astype(np.float64)

    known = registry("youngest", lambda _: YoungestFirst())
    for policy, left in (("lru", [0, 4, 4]), ("fifo", [0, 4, 4]), ("youngest", [4, 4, 0])):
        kv = manager(3, policy=policy, known=known)
        for word in range(3):
            cached(kv, words(word, size=4))
        kv.allocate([99])
        assert [found(kv, words(word, size=4)) for word in range(3)] == left
        assert available(kv) == 2
