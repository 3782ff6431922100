"""The simulator's manager: its tests (IL, U) and what it got wrong (IL-B).

Its blocks have 16 tokens of 100 bytes, and its prefix entries are told by request ids; where the
row's outcome differs from what that manager did, the test shows the right one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    KVCacheManager,
    KVFrameError,
    ModelConfig,
    NeverFitsError,
    StaleHandleError,
    UsageError,
)

from .helpers import available, cached, evicted, found, manager, owners, state, words


def by_bytes(capacity: str, **cache: Any) -> KVCacheManager:
    """A manager whose token takes 100 bytes."""
    model = ModelConfig(layers=1, kv_heads=1, head_dim=50, dtype="int8")
    return KVCacheManager(Config(cache=CacheConfig(capacity=capacity, **cache), model=model))


# --- IL: blocks, growth, use ----------------------------------------------------------------------


@pytest.mark.scenario("IL-1", "IL-2", "IL-4", "IL-5")
def test_bytes_become_blocks_and_growth_takes_what_is_missing() -> None:
    kv = by_bytes("16000 B")
    assert (kv.counts(), kv.usage()) == ((10, 0, 0, 10), 0.0)
    seq = kv.admit(words(1, 2)).seq
    assert (kv.counts().free, kv.block_table(seq).size) == (8, 2)
    assert kv.usage() == pytest.approx(0.2, abs=1e-10)
    kv.commit(seq, 32)
    kv.append(seq, words(3))
    assert (kv.counts().free, kv.block_table(seq).size) == (7, 3)
    kv.release(seq)
    assert (available(kv), kv.usage()) == (10, 0.0)
    kv.check_integrity()


@pytest.mark.scenario("IL-3")
def test_a_pool_of_one_block_refuses_two_and_is_as_it_was() -> None:
    kv = by_bytes("1600 B")
    before = state(kv)
    with pytest.raises(NeverFitsError, match="needs 2 blocks, but the whole pool has 1"):
        kv.admit(words(1, 2))
    assert state(kv) == before
    assert kv.counts().free == 1


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
        grant = kv.admit(prompt, session=session)
        assert grant.cached_tokens == hit
        kv.release(grant.seq)
    stats = kv.stats()
    assert (stats["admissions"], stats["admissions_with_hit"]) == (3, 2 * (hit > 0))
    assert stats["hit_tokens"] == 2 * hit


@pytest.mark.scenario("IL-7", "FE-B23", "IL-B7")
def test_a_block_goes_with_its_last_owner_and_no_further() -> None:
    kv = manager(10, 16)
    one = kv.admit(words(1)).seq
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
    tables = [kv.block_table(kv.admit(words(n, n + 1)).seq).tolist() for n in (3, 5)]
    assert len({*tables[0], *tables[1]}) == 4


# --- IL-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("IL-B2", "VT5", "T31")
def test_an_entry_goes_with_its_block() -> None:
    kv = manager(2, 16)
    cached(kv, words(1))
    assert found(kv, words(1)) == 16
    running = kv.admit(words(2, 3)).seq
    assert found(kv, words(1)) == 0
    kv.release(running)
    assert kv.admit([*words(1), 5]).cached_tokens == 0


@pytest.mark.scenario("IL-B3")
def test_a_hit_is_owned_at_once_and_not_computed_again() -> None:
    kv = manager(3, 16)
    cached(kv, words(1))
    taken = kv.stats()["allocated"]
    grant = kv.admit(words(1, 2))
    assert grant.cached_tokens == 16
    assert kv.stats()["allocated"] - taken == 1
    assert kv.counts() == (1, 0, 2, 3)
    hit = kv.block_table(grant.seq)[0]
    assert owners(kv, hit) == 1
    with pytest.raises(CapacityError):
        kv.admit(words(8, 9))
    assert kv.block_table(grant.seq)[0] == hit


@pytest.mark.scenario("IL-B4")
def test_a_long_prefix_is_found_whole() -> None:
    kv = manager(16, 16)
    prompt = words(*range(10))
    cached(kv, prompt)
    assert found(kv, prompt) == 160
    assert kv.lookup(prompt).tokens == 144
    assert kv.lookup([*prompt[:150], 3]).tokens == 144
    assert kv.lookup([3, *prompt]).tokens == 0


@pytest.mark.scenario("IL-B5", "IL-B6")
def test_waiting_requests_hit_what_was_computed_meanwhile() -> None:
    kv = manager(4, 16)
    running = kv.admit(words(1, 2, 3)).seq
    waiting = words(1, 2, 4)
    for _ in range(5):
        with pytest.raises(CapacityError):
            kv.admit(waiting)
    assert (kv.stats()["admissions"], kv.stats()["hit_tokens"]) == (1, 0)
    kv.commit(running, 48)
    grant = kv.admit(waiting)
    assert grant.cached_tokens == 32
    back = kv.preempt(running)
    assert kv.admit(back).cached_tokens == 32
    stats = kv.stats()
    assert (stats["admissions"], stats["admissions_with_hit"], stats["hit_tokens"]) == (2, 1, 32)
    assert (stats["resumed"], stats["resumed_hit_tokens"]) == (1, 32)


@pytest.mark.scenario("IL-B9", "IL-B8", "CB-B10")
def test_what_was_freed_first_is_recycled_first() -> None:
    kv = manager(4, 16)
    for word in (1, 2, 3, 4):
        cached(kv, words(word))
    kv.admit(words(9))
    assert [found(kv, words(word)) for word in (1, 2, 3, 4)] == [0, 16, 16, 16]


IMPOSSIBLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "less than a block": ({"capacity": "1599 B"}, {}),
    "no block": ({"capacity": 0}, {}),
    "blocks without tokens": ({"capacity": 8, "block_size": 0}, {}),
    "tokens without bytes": ({"capacity": "16000 B"}, {"head_dim": 0}),
    "no layers": ({"capacity": "16000 B"}, {"layers": 0}),
    "more than 32 bits": ({"capacity": 2**32}, {}),
    "more than 32 bits in bytes": ({"capacity": f"{1600 * 2**32} B"}, {}),
    "negative": ({"capacity": -1}, {}),
}


@pytest.mark.scenario("IL-B10", "CB-B15", "MK-B11")
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_capacity_is_told_before_anything_runs(name: str) -> None:
    cache, model = IMPOSSIBLE[name]
    shape = {"layers": 1, "kv_heads": 1, "head_dim": 50, "dtype": "int8"} | model
    with pytest.raises(ConfigError):
        Config.load(env={}, cache=cache, model=shape).resolve()


@pytest.mark.scenario("IL-B12", "IL-B13")
def test_what_comes_back_has_only_what_is_still_there() -> None:
    kv = manager(5, 16)
    grant = kv.admit(words(1, 2), max_seq_len=64)
    assert grant.prompt_tokens == 32
    kv.commit(grant.seq, 32)
    kv.append(grant.seq, words(3)[:10])
    kv.commit(grant.seq, 42)
    request = kv.preempt(grant.seq)
    assert len(request) == 42
    for gone, left in ((0, 32), (4, 16), (5, 0)):
        if gone:
            kv.release(kv.admit(words(*range(10, 10 + gone))).seq)
        grant = kv.admit(request)
        # Not added up over the times it came back, and nothing counts as computed that is gone.
        assert (grant.cached_tokens, grant.prompt_tokens) == (left, 42)
        assert kv.lengths(grant.seq) == (42, 42, left, left)
        request = kv.preempt(grant.seq)
    kv.check_integrity()


@pytest.mark.scenario("IL-B14")
@pytest.mark.parametrize("block", [-1, 10, 2**31 - 1])
def test_nobody_names_blocks_that_are_not_his(block: int) -> None:
    kv = manager(10, 16)
    kv.admit(words(1))
    before = state(kv)
    for ids in ([block], [0], [9]):
        with pytest.raises(UsageError, match="block"):
            kv.give_back(np.array(ids, np.int32))
    with pytest.raises(KVFrameError):
        kv.release(block)
    assert state(kv) == before


# --- U: its later unit tests ----------------------------------------------------------------------


@pytest.mark.scenario("U-1")
def test_a_decoded_token_and_the_hit_after() -> None:
    kv = manager(100, 16)
    prompt = words(1, 2, 3, 4)
    seq = kv.admit(prompt).seq
    kv.commit(seq, 64)
    kv.append(seq, [5])
    assert (kv.block_table(seq).size, kv.counts().free) == (5, 95)
    kv.release(seq)
    assert available(kv) == 100
    assert kv.admit(prompt).cached_tokens == 48


@pytest.mark.scenario("U-2")
def test_a_shared_head_is_there_once() -> None:
    kv = manager(10, 16)
    first = kv.admit(words(1, 2, 3)).seq
    kv.commit(first, 48)
    second = kv.admit(words(1, 2, 9))
    assert (second.cached_tokens, kv.counts().referenced) == (32, 4)
    kv.release(first)
    assert kv.admit([*words(1, 2, 3), 4]).cached_tokens == 48


def pairs() -> KVCacheManager:
    """Six blocks full with a = [1, 2], b = [3, 4], c = [5, 6], freed in this order."""
    kv = manager(6, 16)
    for pair in ((1, 2), (3, 4), (5, 6)):
        cached(kv, words(*pair))
    return kv


@pytest.mark.scenario("U-3", "MK-B14", "V8")
def test_a_newcomer_takes_the_oldest_and_then_a_tail() -> None:
    kv = pairs()
    kv.admit(words(7, 8, 9))
    assert evicted(kv) == 3
    assert [found(kv, words(*pair)) for pair in ((1, 2), (3, 4), (5, 6))] == [0, 16, 32]


@pytest.mark.scenario("U-4")
def test_a_block_that_is_hit_is_no_room_for_what_missed() -> None:
    kv = manager(2, 16)
    cached(kv, words(1))
    both = kv.admit(words(1, 2)).seq
    assert kv.counts().free == 0
    for refused in (words(9), words(1, 3)):
        with pytest.raises(CapacityError):
            kv.admit(refused)
    kv.release(both)
    assert kv.admit(words(1, 3)).cached_tokens == 16


@pytest.mark.scenario("U-5")
def test_a_hit_makes_its_prefix_young() -> None:
    kv = pairs()
    kv.release(kv.admit([*words(3, 4), 0], until=32).seq)
    kv.admit(words(7, 8, 9))
    assert [found(kv, words(*pair)) for pair in ((1, 2), (3, 4), (5, 6))] == [0, 32, 16]


@pytest.mark.scenario("U-7", "VT44")
def test_the_queue_of_what_may_go_gives_up_its_middle() -> None:
    kv = manager(4, 16)
    for word in range(4):
        cached(kv, words(word))
    order = kv.eviction_order
    assert order().tolist() == [0, 1, 2, 3]
    held = [kv.admit([*words(word), 0], until=16).seq for word in (0, 1)]
    assert order().tolist() == [2, 3]
    again = kv.fork(held[0])
    kv.release(held[0])
    assert order().tolist() == [2, 3]
    kv.release(again)
    assert order().tolist() == [2, 3, 0]
    kv.admit([*words(3), 0], until=16)
    assert order().tolist() == [2, 0]
    kv.check_integrity()


@pytest.mark.scenario("U-11")
def test_a_sharer_is_admitted_for_what_it_lacks() -> None:
    kv = manager(6, 16)
    kv.commit(kv.admit(words(1, 2, 3, 4)).seq, 64)
    shares = kv.admit([*words(1, 2, 3), 7])
    assert (shares.cached_tokens, kv.counts().free) == (48, 1)
    kv.commit(shares.seq, 49)
    free = kv.counts().free
    same = kv.admit(words(1, 2, 3, 4))
    assert (same.cached_tokens, free - kv.counts().free) == (48, 1)
