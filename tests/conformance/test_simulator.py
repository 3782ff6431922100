"""The simulator's manager: its tests (IL, U) and what it got wrong (IL-B).

Its blocks have 16 tokens of 100 bytes, and its prefix entries are told by request ids; where the
row's outcome differs from what that manager did, the test shows the right one.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    KVCacheManager,
    ModelConfig,
    StaleHandleError,
)

from .helpers import available, cached, manager, owners, words


def by_bytes(capacity: str, **cache: Any) -> KVCacheManager:
    """A manager whose token takes 100 bytes."""
    model = ModelConfig(layers=1, kv_heads=1, head_dim=50, dtype="int8")
    return KVCacheManager(Config(cache=CacheConfig(capacity=capacity, **cache), model=model))


# --- IL: blocks, growth, use ----------------------------------------------------------------------


@pytest.mark.scenario("IL-1", "IL-2", "IL-4", "IL-5")
def test_bytes_become_blocks_and_growth_takes_what_is_missing() -> None:
    kv = by_bytes("16000 B")
    assert (kv.counts(), kv.pressure.usage()) == ((10, 0, 0, 10), 0.0)
    seq = kv.allocate(words(1, 2)).seq
    assert (kv.counts().free, kv.block_table(seq).size) == (8, 2)
    assert kv.pressure.usage() == pytest.approx(0.2, abs=1e-10)
    kv.commit(seq, 32)
    kv.append(seq, words(3))
    assert (kv.counts().free, kv.block_table(seq).size) == (7, 3)
    kv.release(seq)
    assert (available(kv), kv.pressure.usage()) == (10, 0.0)
    kv.check_integrity()


@pytest.mark.scenario("IL-6", "IL-B1", "IL-B4")
@pytest.mark.parametrize(
    ("prompt", "hit"),
    [(words(1), 0), (words(1)[:10], 0), (words(2, 3), 0), (words(2), 0)]
    + [(words(1, 2)[:length], 16) for length in (17, 24, 32)],
)
def test_a_hit_is_told_by_tokens_and_leaves_one_to_compute(prompt: list[int], hit: int) -> None:
    kv = manager(10, 16)
    cached(kv, words(1), session=7, turn=1)
    assert kv.lookup(prompt).tokens == hit
    # The same session and length is no reason for a hit, another one none against it.
    for session in (7, 8):
        grant = kv.allocate(prompt, session=session)
        assert grant.cached_tokens == hit
        kv.release(grant.seq)
    stats = kv.stats.counters()
    assert (stats["requests"], stats["requests_with_hit"]) == (3, 2 * (hit > 0))
    assert stats["hit_tokens"] == 2 * hit


@pytest.mark.scenario("IL-7", "FE-B23", "IL-B7")
def test_a_block_goes_with_its_last_owner_and_no_further() -> None:
    kv = manager(10, 16)
    one = kv.allocate(words(1)).seq
    two = kv.fork(one)
    (block,) = kv.block_table(one).tolist()
    assert owners(kv, block) == 2
    kv.release(one)
    assert (owners(kv, block), kv.counts().free) == (1, 9)
    kv.release(two)
    assert (owners(kv, block), kv.counts().free) == (0, 10)
    for seq in (one, two):
        with pytest.raises(StaleHandleError):
            kv.release(seq)
    assert (owners(kv, block), kv.counts()) == (0, (10, 0, 0, 10))
    # Two requests after the double free: no block is handed out twice.
    tables = [kv.block_table(kv.allocate(words(n, n + 1)).seq).tolist() for n in (3, 5)]
    assert len({*tables[0], *tables[1]}) == 4


# --- IL-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("IL-B5", "IL-B6")
def test_waiting_requests_hit_what_was_computed_meanwhile() -> None:
    kv = manager(4, 16)
    running = kv.allocate(words(1, 2, 3)).seq
    waiting = words(1, 2, 4)
    for _ in range(5):
        with pytest.raises(CapacityError):
            kv.allocate(waiting)
    assert (kv.stats.counters()["requests"], kv.stats.counters()["hit_tokens"]) == (1, 0)
    kv.commit(running, 48)
    grant = kv.allocate(waiting)
    assert grant.cached_tokens == 32
    back = kv.preempt(running)
    assert kv.allocate(back).cached_tokens == 32
    stats = kv.stats.counters()
    assert (stats["requests"], stats["requests_with_hit"], stats["hit_tokens"]) == (2, 1, 32)
    assert (stats["resumed"], stats["resumed_hit_tokens"]) == (1, 32)


# --- U: its later unit tests ----------------------------------------------------------------------


@pytest.mark.scenario("U-1")
def test_a_decoded_token_and_the_hit_after() -> None:
    kv = manager(100, 16)
    prompt = words(1, 2, 3, 4)
    seq = kv.allocate(prompt).seq
    kv.commit(seq, 64)
    kv.append(seq, [5])
    assert (kv.block_table(seq).size, kv.counts().free) == (5, 95)
    kv.release(seq)
    assert available(kv) == 100
    assert kv.allocate(prompt).cached_tokens == 48


@pytest.mark.scenario("U-2")
def test_a_shared_head_is_there_once() -> None:
    kv = manager(10, 16)
    first = kv.allocate(words(1, 2, 3)).seq
    kv.commit(first, 48)
    second = kv.allocate(words(1, 2, 9))
    assert (second.cached_tokens, kv.counts().referenced) == (32, 4)
    kv.release(first)
    assert kv.allocate([*words(1, 2, 3), 4]).cached_tokens == 48


@pytest.mark.scenario("U-7", "VT44")
def test_the_queue_of_what_may_go_gives_up_its_middle() -> None:
    kv = manager(4, 16)
    for word in range(4):
        cached(kv, words(word))
    order = kv.inspect.eviction_order
    assert order().tolist() == [0, 1, 2, 3]
    held = [kv.allocate([*words(word), 0], until=16).seq for word in (0, 1)]
    assert order().tolist() == [2, 3]
    again = kv.fork(held[0])
    kv.release(held[0])
    assert order().tolist() == [2, 3]
    kv.release(again)
    assert order().tolist() == [2, 3, 0]
    kv.allocate([*words(3), 0], until=16)
    assert order().tolist() == [2, 0]
    kv.check_integrity()
