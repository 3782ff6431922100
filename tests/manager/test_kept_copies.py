"""``cache.keep_duplicates``: copies of a block stay side by side, each evicted by itself."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import ConfigError, KVCacheManager, Request

SIZE = 4


def manager(capacity: int = 8, **cache: Any) -> KVCacheManager:
    return KVCacheManager(
        cache={"block_size": SIZE, "capacity": capacity, "keep_duplicates": True, **cache},
        eviction="lru",
    )


def twice(kv: KVCacheManager) -> tuple[list[int], list[int]]:
    """The blocks of two sequences that computed the same two blocks side by side."""
    prompt = range(2 * SIZE)
    both = [kv.allocate(Request(prompt, read_cache=False)).seq for _ in range(2)]
    tables = [kv.block_table(seq).tolist() for seq in both]
    for seq in both:
        kv.commit(seq, 2 * SIZE)
    for seq in both:
        kv.release(seq)
    return tables[0], tables[1]


def test_both_copies_stay_and_the_older_one_is_found() -> None:
    kv = manager()
    first, second = twice(kv)
    assert kv.counts()[:2] == (4, 4)
    hit = kv.lookup([*range(2 * SIZE), 99])
    assert hit.blocks[0].tolist() == first
    assert kv.blocks.unowned(hit.blocks[0]) == 2
    assert set(first).isdisjoint(second)
    kv.check_integrity()


def test_each_is_evicted_by_itself_and_what_follows_it_stays() -> None:
    kv = manager(capacity=4)
    first, second = twice(kv)
    # The older copy goes first, its end before its start.
    other = kv.allocate(Request(range(100, 100 + SIZE)))
    assert kv.block_table(other.seq).tolist() == [first[1]]
    hit = kv.lookup([*range(2 * SIZE), 99])
    assert hit.blocks[0].tolist() == [first[0], second[1]], "one of each"
    kv.check_integrity()
    found = kv.allocate([*range(2 * SIZE), 99], until=2 * SIZE)
    assert found.cached_tokens == 2 * SIZE
    kv.release(other.seq)
    again = kv.allocate(Request(range(200, 200 + 2 * SIZE)))
    assert sorted(kv.block_table(again.seq).tolist()) == sorted([first[1], second[0]])
    kv.check_integrity()
    kv.release(found.seq)
    kv.release(again.seq)
    kv.check_integrity()


@pytest.mark.parametrize(
    "other", [{"index": "radix"}, {"remap_duplicates": True}, {"partial_hits": True}]
)
def test_what_does_away_with_copies_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="keep_duplicates"):
        manager(**other)
