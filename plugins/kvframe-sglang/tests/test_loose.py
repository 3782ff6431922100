"""Values that no scheduler should give: none of them raises, and the tree stays whole."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

pytest.importorskip("sglang", reason="SGLang is not installed")

import torch
from kvframe_sglang.server import cache, start
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixKey

WORDS: list[Any] = [None, "", "a", "\ud800", 7, b"x", ("t",), "é" * 300]
NUMBERS: list[Any] = [
    None,
    0,
    -1,
    3,
    2**31,
    -(2**70),
    2.5,
    float("nan"),
    float("inf"),
    "4",
    "x",
    True,
    [],
]


def tokens(draw: random.Random) -> Any:
    count = draw.randint(0, 40)
    plain = [draw.choice([0, 1, 2, -5, 2**40, 2**63 - 1]) for _ in range(count)]
    kind = draw.randrange(6)
    if kind == 0:
        return plain
    if kind == 1:
        return tuple(plain)
    if kind == 2:
        return [*plain, draw.choice([2**70, None, 1.5, "word", []])]
    if kind == 3:
        return array("i", [value % 1000 for value in plain])
    return array("q", plain)


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("is_eagle", [False, True])
@pytest.mark.parametrize("policy", ["lru", "arc", "session", "priority"])
def test_nothing_raises(page_size: int, is_eagle: bool, policy: str) -> None:
    parsed = start()
    core = cache(
        *(parsed, 4096),
        page_size=page_size,
        eviction_policy=f"kvframe:{policy}",
        is_eagle=is_eagle,
    ).tree_core
    draw = random.Random(page_size)
    for _ in range(400):
        ids = tokens(draw)
        key = RadixKey(ids, draw.choice(WORDS), cache_salt=draw.choice(WORDS))
        if draw.random() < 0.3:
            core.match_prefix(MatchPrefixParams(key=key))
        elif draw.random() < 0.7:
            value = draw.choice([torch.arange(len(ids)), torch.arange(draw.randint(0, 50))])
            core.begin_insert(
                InsertParams(
                    key=key,
                    value=value,
                    priority=draw.choice(NUMBERS),
                    inserted_len=draw.choice(NUMBERS),
                    prev_prefix_len=draw.choice(NUMBERS),
                    session_id=draw.choice(WORDS),
                )
            )
        else:
            core.evict_device_start(0, draw.randint(-3, 60))
            step = core.evict_device_next_node(0, {})
            step.device_frees.clear()
            core.evict_device_end(0)
    core.sanity_check([], [])


def test_a_scheduler_goes_on_after_them() -> None:
    made = cache(start(), 256, eviction_policy="kvframe:lfu")
    slots = made.token_to_kv_pool_allocator.alloc(8)
    made.insert(InsertParams(key=RadixKey(array("q", range(8))), value=slots, priority=2**80))
    found = made.match_prefix(MatchPrefixParams(key=RadixKey(array("q", range(9)))))
    assert found.device_prefix_len == 8
    assert made.evict(EvictParams(num_tokens=5)).num_tokens_evicted == 8
