"""cbtop's paged cache: its tests (CB) and what it got wrong (CB-B)."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    Config,
    KVCacheManager,
    ModelConfig,
    Request,
)

from .helpers import cached, evicted, found, manager, owners, words

# --- CB: blocks and sequences ---------------------------------------------------------------------


@pytest.mark.scenario("CB-1", "CB-12", "FE-B20")
def test_an_empty_cache_of_known_bytes() -> None:
    model = ModelConfig(layers=1, kv_heads=32, head_dim=128, dtype="float16")
    config = Config(cache=CacheConfig(capacity=1024, block_size=16), model=model).resolve()
    kv = KVCacheManager(config)
    assert (kv.counts(), kv.pressure.usage()) == ((1024, 0, 0, 1024), 0.0)
    assert config.block_bytes == 262144
    hundred = Config(cache=CacheConfig(capacity="26214400 B"), model=model)
    assert KVCacheManager(hundred).counts().total == 100
    one_less = Config(cache=CacheConfig(capacity="26214399 B"), model=model)
    assert KVCacheManager(one_less).counts().total == 99


@pytest.mark.scenario("CB-2", "CB-4", "CB-5", "CB-16", "FE-7")
@pytest.mark.parametrize(
    ("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3), (48, 3)]
)
def test_tokens_take_whole_blocks_and_a_fork_takes_none(tokens: int, blocks: int) -> None:
    kv = manager(100, 16)
    seq = kv.allocate([5] * tokens).seq
    assert (kv.counts().referenced, kv.lengths(seq).slots) == (blocks, tokens)
    child = kv.fork(seq)
    assert (kv.counts().referenced, kv.lengths(child).slots) == (blocks, tokens)
    assert np.array_equal(kv.block_table(seq), kv.block_table(child))
    assert all(owners(kv, block) == 2 for block in kv.block_table(seq).tolist())
    kv.release(seq)
    assert kv.counts().referenced == blocks
    kv.release(child)
    assert kv.counts() == (100, 0, 0, 100)


@pytest.mark.scenario("CB-3", "VT3")
def test_growth_takes_a_block_once_one_is_full() -> None:
    kv = manager(100, 16)
    seq = kv.allocate([5] * 8).seq
    used = [kv.counts().referenced]
    for more in (4, 8):
        kv.append(seq, [6] * more)
        used.append(kv.counts().referenced)
    assert used == [1, 1, 2]


@pytest.mark.scenario("CB-8")
def test_use_is_the_share_of_blocks_owned() -> None:
    kv = manager(100, 16)
    kv.allocate([5] * 160)
    assert kv.pressure.usage() == pytest.approx(0.10)
    kv.allocate([6] * 480)
    assert kv.pressure.usage() == pytest.approx(0.40)


@pytest.mark.scenario("CB-15", "MK-3", "FE-B16")
def test_a_request_admitted_twice_is_two_sequences() -> None:
    """Handles come from the manager, so that no caller's id can name two sequences."""
    kv = manager(10, 16)
    request = Request(words(1, 2), session=1, turn=1)
    one, two = kv.allocate(request).seq, kv.allocate(request).seq
    assert one != two
    assert not set(kv.block_table(one).tolist()) & set(kv.block_table(two).tolist())
    kv.append(one, [5])
    assert (kv.lengths(one).slots, kv.lengths(two).slots) == (33, 32)
    kv.release(one)
    assert (kv.counts().referenced, kv.lengths(two).slots) == (2, 32)
    kv.release(two)
    assert kv.counts() == (10, 0, 0, 10)


# --- CB-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("CB-B8", "V2")
def test_what_is_read_often_stays_and_what_was_read_long_ago_does_not() -> None:
    def left(policy: str, scans: int) -> bool:
        kv = manager(2, 16, policy=policy)
        cached(kv, words(1))
        for _ in range(10):
            kv.release(kv.allocate([*words(1), 0], until=16).seq)
        for scan in range(100, 100 + scans):
            cached(kv, words(scan))
        return found(kv, words(1)) == 16

    # A read counts as a use: what was read ten times outlives what was used once, but for lru.
    assert (left("lfu", 3), left("lru", 3)) == (True, False)
    # Frequency ages: what nobody reads any more goes in the end.
    assert (left("lfuda", 3), left("lfuda", 30)) == (True, False)


@pytest.mark.scenario("CB-B18")
def test_a_run_is_replayable_tick_by_tick() -> None:
    kv = manager(3, 16, event_log=True)
    cached(kv, words(1, 2))
    kv.allocate([*words(1, 2), 3])
    again = manager(3, 16, event_log=True)
    cached(again, words(1, 2))
    again.allocate([*words(1, 2), 3])
    one, two = kv.log.take_events(), again.log.take_events()
    assert {name: column.tolist() for name, column in one.items()} == {
        name: column.tolist() for name, column in two.items()
    }
    ticks = one["tick"].tolist()
    assert ticks == sorted(ticks)
    assert ticks[-1] < 10, "a logical clock, not the wall's"
    assert evicted(kv) == 0
