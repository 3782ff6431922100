"""lru is SGLang's own order, operation by operation; every policy gets through the same stream."""

from __future__ import annotations

import pytest

pytest.importorskip("sglang", reason="SGLang is not installed")

from kvframe_sglang.server import cache, start
from kvframe_sglang.streams import PAGES, Stream, beside

from kvframe.registry import Registry

ENDED = [
    row.name
    for row in Registry().list()
    if row.kind == "eviction"
    and row.way == "builtin"
    and not Registry().eviction(row.name).descriptor.replay_only
]


@pytest.mark.parametrize("page_size", PAGES)
def test_lru_finds_and_evicts_what_sglang_does(page_size: int) -> None:
    done, difference = beside(page_size, 10_000, seed=1)
    assert not difference
    assert done.evicted
    assert done.found > done.asked / 4


@pytest.mark.parametrize("seed", range(2, 6))
def test_other_seeds(seed: int) -> None:
    assert not beside(PAGES[seed % 3], 1_500, seed)[1]


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("page_size", [1, 16])
def test_events_are_those_of_sglang(page_size: int, dynamo: bool) -> None:
    told = {"enable_kv_cache_events": True, "dynamo_kv_event_format": dynamo}
    assert not beside(page_size, 1_500, 3, **told)[1]


@pytest.mark.parametrize("page_size", [1, 16])
def test_pairs_of_tokens_for_eagle(page_size: int) -> None:
    assert not beside(page_size, 1_500, 4, is_eagle=True)[1]


@pytest.mark.parametrize("policy", ENDED)
def test_every_policy_serves(policy: str) -> None:
    parsed = start("--page-size", "16")
    made = cache(parsed, 960, page_size=16, eviction_policy=f"kvframe:{policy}")
    assert type(made.tree_core).__name__ == "KvframeTreeCore"
    done = Stream(made, 5).run(600)
    made.sanity_check()
    assert done.found
    assert made.tree_core.tree.failures == 0
    # All that the requests held came back.
    free = made.token_to_kv_pool_allocator.available_size()
    assert free + made.evictable_size() == 960
    assert made.protected_size() == 0
