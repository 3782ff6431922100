"""vLLM: what its users hit (V) and what its own tests say (VT), in its figures where it has them.

Its queue of free blocks is kvframe's free list followed by the cached blocks in eviction order, and
its null block is ``null_block``, so that ids start at 1 as there.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    EventKind,
    KVCacheManager,
    MMItem,
    StaleHandleError,
)

from .helpers import cached, evicted, found, manager, owners, state, words

ROOT = Path(__file__).parents[2]
COMMON = words(1, 2, 3)
HASHES = ["sha256", "blake3", "xxh3-128"]


def ten(**cache: Any) -> KVCacheManager:
    """Ten usable blocks of 16 tokens, numbered from 1."""
    return manager(11, 16, null_block=True, event_log=True, **cache)


def stores(kv: KVCacheManager) -> list[tuple[int, int, tuple[int, ...]]]:
    """(block, the block it follows, key) of what became findable since the last call."""
    events = kv.log.take_events()
    is_store = events["kind"] == EventKind.STORE
    keys = map(tuple, events["key"][is_store].tolist())
    parents = np.where(events["value"] == 2**32 - 1, -1, events["value"].astype(np.int64))
    blocks, above = events["block"][is_store].tolist(), parents[is_store].tolist()
    return list(zip(blocks, above, keys, strict=True))


# --- prefill, decode, hits ------------------------------------------------------------------------


@pytest.mark.scenario("VT1", "V7", "V8", "IL-B9")
@pytest.mark.parametrize("hash_name", HASHES)
def test_prefill_of_55_tokens_and_the_order_blocks_go_in(hash_name: str) -> None:
    kv = ten(hash=hash_name)
    first = kv.allocate([*COMMON, *[7] * 7]).seq
    kv.commit(first, 55)
    assert kv.block_table(first).tolist() == [1, 2, 3, 4]
    keys = [tuple(key) for key in kv.blocks.hash_blocks(COMMON).tolist()]
    assert stores(kv) == [(1, -1, keys[0]), (2, 1, keys[1]), (3, 2, keys[2])]
    second = kv.allocate([*COMMON, *[8] * 5])
    assert second.cached_tokens == 48
    assert kv.block_table(second.seq).tolist() == [1, 2, 3, 5]
    assert [owners(kv, block) for block in (1, 2, 3, 4, 5)] == [2, 2, 2, 1, 1]
    kv.release(first)
    kv.release(second.seq)
    assert kv.counts() == (7, 3, 1, 11)
    # What holds nothing goes before what could still be found.
    taken = kv.allocate([9] * 160).seq
    assert kv.block_table(taken).tolist() == [5, 4, 6, 7, 8, 9, 10, 3, 2, 1]
    assert found(kv, COMMON) == 0
    kv.check_integrity()


@pytest.mark.scenario("VT2")
def test_one_that_does_not_read_makes_copies_of_its_own() -> None:
    kv = ten()
    first = kv.allocate([*COMMON, 7]).seq
    kv.commit(first, 49)
    keys = [key for _, _, key in stores(kv)]
    second = kv.allocate([*COMMON, 7], read_cache=False)
    assert second.cached_tokens == 0
    kv.commit(second.seq, 49)
    assert [key for _, _, key in stores(kv)] == keys
    tables = [kv.block_table(seq).tolist() for seq in (first, second.seq)]
    assert not set(tables[0]) & set(tables[1])
    assert {owners(kv, block) for table in tables for block in table} == {1}
    kv.check_integrity()


@pytest.mark.scenario("VT3")
def test_decode_fills_a_block_before_it_takes_the_next() -> None:
    kv = ten()
    seq = kv.allocate([*COMMON, *[7] * 7]).seq
    kv.commit(seq, 55)
    stores(kv)
    kv.append(seq, [8] * 4)
    kv.commit(seq, 59)
    assert (kv.block_table(seq).size, stores(kv)) == (4, [])
    kv.append(seq, [9] * 19)
    kv.commit(seq, 78)
    key = tuple(kv.blocks.hash_blocks([*COMMON, *[7] * 7, *[8] * 4, *[9] * 5])[3].tolist())
    assert stores(kv) == [(4, 3, key)]
    assert kv.block_table(seq).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.scenario("VT5", "VT6", "VT12")
def test_a_hit_is_kept_and_another_cached_block_goes() -> None:
    kv = manager(3, 16)
    for word in (1, 2):
        cached(kv, words(word))
    kv.allocate([9])
    grant = kv.allocate([*words(1), 5])
    assert (grant.cached_tokens, evicted(kv)) == (16, 1)
    assert (found(kv, words(1)), found(kv, words(2))) == (16, 0)
    assert kv.block_table(grant.seq).tolist() == [0, 1]
    before = state(kv, [grant.seq])
    with pytest.raises(CapacityError):
        kv.allocate([*words(1), 6])
    assert (state(kv, [grant.seq]), owners(kv, 0)) == (before, 1)


@pytest.mark.scenario("VT7")
def test_without_caching_there_are_no_hits_and_a_full_pool_says_so() -> None:
    kv = ten(prefix_caching=False)
    seq = kv.allocate([*COMMON, 7]).seq
    kv.commit(seq, 49)
    assert (kv.lookup([*COMMON, 7]).tokens, stores(kv)) == (0, [])
    assert kv.allocate([*COMMON, 7]).cached_tokens == 0
    with pytest.raises(CapacityError):
        kv.allocate([*COMMON, 7])
    kv.release(seq)
    assert kv.counts().cached == 0


@pytest.mark.scenario("VT8")
@pytest.mark.parametrize(("committed", "full"), [(3, 0), (4, 1), (7, 1), (8, 2), (14, 3)])
def test_only_blocks_that_are_full_are_cached(committed: int, full: int) -> None:
    kv = manager(8)
    seq = kv.allocate(list(range(14))).seq
    kv.commit(seq, committed)
    assert kv.stats.counters()["stored"] == full
    states = [kv._core.block_state(block)[0] for block in kv.block_table(seq).tolist()]
    assert states == ["committed"] * full + ["pending"] * (4 - full)


@pytest.mark.scenario("VT10", "VT45")
def test_no_hit_goes_past_another_image() -> None:
    kv = manager(16)
    prompt = [*range(6), *[77] * 6, *range(50, 54)]
    cat, dog = [MMItem(6, 12, b"cat")], [MMItem(6, 12, b"dog")]
    embedded = [MMItem(0, 16, b"sha256 of the embeddings")]
    cached(kv, prompt, mm_items=cat)
    assert kv.lookup([*prompt, 0], mm_items=cat).tokens == 16
    assert kv.lookup([*prompt, 0], mm_items=dog).tokens == 4
    assert kv.lookup([*prompt, 0], mm_items=embedded).tokens == 0
    assert kv.allocate([*prompt, 0], mm_items=dog).cached_tokens == 4


@pytest.mark.scenario("VT11", "V18")
@pytest.mark.parametrize("hash_name", HASHES)
def test_a_salt_shares_with_itself_only(hash_name: str) -> None:
    kv = manager(32, 16, hash=hash_name)
    cached(kv, [*COMMON, 7], cache_salt="a")
    hits = [
        kv.allocate([*COMMON, 8], cache_salt=salt, chunk=0).cached_tokens for salt in ("a", "b", "")
    ]
    assert hits == [48, 0, 0]


@pytest.mark.scenario("V16", "VT46")
def test_an_adapter_of_a_salts_name_and_another_version_of_it() -> None:
    kv = manager(8)
    spaces: list[dict[str, Any]] = [
        {"lora_name": "x"},
        {"cache_salt": "x"},
        {"lora_name": "x", "cache_salt": "x"},
        {"lora_name": "/models/x"},
        {"lora_name": "/models/x/2"},
    ]
    keys = {kv.blocks.hash_blocks([5] * 4, **space).tobytes() for space in spaces}
    assert len(keys) == len(spaces)


@pytest.mark.scenario("V17")
@pytest.mark.parametrize("same_last_block", [False, True])
def test_a_collision_is_a_miss(same_last_block: bool) -> None:
    kv = manager(16, hash="xxh3-128")
    mine = [*words(1, 2, size=4), 5]
    theirs = [*words(3, 2 if same_last_block else 4, size=4), 5]
    cached(kv, mine)
    forged = kv.blocks.hash_blocks(mine)
    assert kv.allocate(theirs, keys=forged).cached_tokens == 0
    assert kv.stats.counters()["collisions"] == 1
    assert kv.allocate(mine, keys=forged).cached_tokens == 8


@pytest.mark.scenario("V19")
def test_64_cached_tokens_of_64_give_48() -> None:
    kv = manager(10, 16)
    prompt = words(1, 2, 3, 4)
    cached(kv, prompt)
    assert kv.allocate(prompt).cached_tokens == 48
    assert kv.allocate([*prompt, 5]).cached_tokens == 64


@pytest.mark.scenario("VT13")
def test_a_reset_forgets_and_what_is_in_use_stays_whole() -> None:
    kv = ten()
    kv.release(kv.allocate([9] * 55).seq)
    seq = kv.allocate([*COMMON, *[7] * 7]).seq
    kv.commit(seq, 55)
    table = kv.block_table(seq).tolist()
    assert kv.reset_prefix_cache() == 0
    assert (kv.block_table(seq).tolist(), kv.lengths(seq).committed) == (table, 55)
    assert found(kv, COMMON) == 0
    kv.release(seq)
    assert kv.counts().cached == 0
    cached(kv, COMMON)
    assert kv.reset_prefix_cache() == 3
    assert (found(kv, COMMON), kv.counts().free) == (0, 10)


# --- copies, keys, blocks, the queue --------------------------------------------------------------


@pytest.mark.scenario("VT15", "VT27")
def test_a_key_is_found_until_its_last_block_goes() -> None:
    kv = manager(4)
    assert found(kv, words(1, size=4)) == 0
    one = kv.allocate(words(1, 2, size=4)).seq
    two = kv.allocate(words(1, 3, size=4), read_cache=False).seq
    for seq in (one, two):
        kv.commit(seq, 8)
        kv.release(seq)
    # Both copies of the first block are followed by a block of their own, so both stay.
    assert kv.counts() == (0, 4, 0, 4)
    left = []
    for free in (1, 2, 3, 4):
        kv.evict_until(free)
        left.append(found(kv, words(1, size=4)))
        kv.check_integrity()
    assert left == [4, 4, 4, 0]


@pytest.mark.scenario("VT42", "T18")
def test_the_root_of_keys_is_the_same_everywhere_and_apart_by_hash() -> None:
    roots = {}
    for name in HASHES:
        keys = [manager(8, hash=name).blocks.hash_blocks([5] * 4).tobytes() for _ in range(2)]
        assert keys[0] == keys[1]
        roots[name] = keys[0]
        other = manager(8, hash=name, weight_version="other weights")
        assert other.blocks.hash_blocks([5] * 4).tobytes() != keys[0]
    assert len(set(roots.values())) == 3


@pytest.mark.scenario("VT43")
def test_a_block_is_in_one_state_and_its_next_life_is_another() -> None:
    kv = manager(1)

    def now() -> tuple[str, int, int]:
        return kv._core.block_state(0)

    assert now() == ("free", 0, 0)
    seq = kv.allocate([5] * 4).seq
    assert now() == ("pending", 0, 1)
    kv.commit(seq, 4)
    assert now() == ("committed", 0, 1)
    kv.release(seq)
    assert now() == ("cached", 0, 0)
    kv.evict_until(1)
    assert now() == ("free", 1, 0)
    kv.blocks.take(out=np.zeros(1, np.int32))
    assert now() == ("on loan", 1, 1)
    with pytest.raises(StaleHandleError):
        kv.release(seq)


@pytest.mark.scenario("VT43", "V35", "F29")
def test_a_block_costs_little_memory() -> None:
    """Of the resident set; rust/core/tests/memory.rs counts what is allocated."""
    command = [sys.executable, "-m", "perf.memory", str(1 << 18)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    # 64, and 4 for the statistics: 1 MiB in all.
    assert float(ran.stdout) < 70


@pytest.mark.scenario("VT44", "U-7")
def test_the_queue_is_taken_and_refilled_in_order_and_never_in_part() -> None:
    kv = manager(6)

    def take(count: int) -> list[int]:
        out = np.full(count, -1, np.int32)
        kv.blocks.take(out=out)
        return out.tolist()

    def put(*blocks: int) -> None:
        kv.blocks.free(np.array(blocks, np.int32))

    assert take(0) == []
    assert take(2) == [0, 1]
    for count in (5, 7):
        with pytest.raises(CapacityError, match=f"needs {count} blocks, but only 4"):
            take(count)
    assert take(4) == [2, 3, 4, 5]
    put()
    # What comes back is the next to go, in the order it is named.
    put(3, 1)
    put(5, 0)
    assert take(4) == [5, 0, 3, 1]
    put(*range(6))
    assert take(6) == [0, 1, 2, 3, 4, 5]
    kv.check_integrity()


@pytest.mark.scenario("VT47", "T30")
@pytest.mark.parametrize("hash_name", HASHES)
def test_keys_chain_and_grow_as_their_request_does(hash_name: str) -> None:
    kv = ten(hash=hash_name)
    text = [*COMMON, *range(40)]
    whole = [tuple(key) for key in kv.blocks.hash_blocks(text).tolist()]
    assert len(set(whole)) == 5
    seq = kv.allocate(text[:20]).seq
    kv.commit(seq, 20)
    for start, end in pairwise((20, 21, 32, 47, 65, 88)):
        kv.append(seq, text[start:end])
        kv.commit(seq, end)
    assert [key for _, _, key in stores(kv)] == whole
    other = [*text]
    other[0] += 1
    assert not {tuple(key) for key in kv.blocks.hash_blocks(other).tolist()} & set(whole)


# --- what its users hit ---------------------------------------------------------------------------


@pytest.mark.scenario("V1")
@pytest.mark.parametrize(("policy", "stays"), [("lru", 0), ("lfu", 32), ("slru", 32)])
def test_a_scan_leaves_what_is_hot(policy: str, stays: int) -> None:
    kv = manager(8, 16, policy=policy)
    for _ in range(5):
        cached(kv, words(1, 2))
        kv.release(kv.allocate([*words(1, 2), 5], until=32).seq)
    for scan in range(100, 140):
        cached(kv, words(scan))
    assert found(kv, words(1, 2)) == stays


@pytest.mark.scenario("V2")
@pytest.mark.parametrize(("policy", "stays"), [("lru", 2), ("lfu", 1)])
def test_of_two_that_are_as_old_the_one_used_more_stays(policy: str, stays: int) -> None:
    kv = manager(2, 16, policy=policy)
    for word in (1, 2):
        cached(kv, words(word))
    for _ in range(9):
        kv.release(kv.allocate([*words(1), 5], until=16).seq)
    both = [kv.allocate([*words(word), 5], until=16).seq for word in (1, 2)]
    kv.step(release=both)
    kv.allocate([9])
    assert [word for word in (1, 2) if found(kv, words(word))] == [stays]


@pytest.mark.scenario("V7")
def test_what_is_cached_goes_after_what_is_not() -> None:
    kv = manager(4, 16)
    seq = kv.allocate([*COMMON, 7]).seq
    kv.commit(seq, 49)
    kv.release(seq)
    assert kv.counts() == (1, 3, 0, 4)
    assert kv.block_table(kv.allocate([9]).seq).tolist() == [3]
    assert found(kv, COMMON) == 48


@pytest.mark.scenario("V8", "MK-B14")
def test_a_long_one_goes_from_its_own_end_before_a_neighbours_head() -> None:
    kv = manager(102, 4)
    long, short = kv.allocate(list(range(400))).seq, kv.allocate([*range(900, 908)]).seq
    for seq, length in ((long, 400), (short, 8)):
        kv.commit(seq, length)
    kv.step(release=[long, short])
    for gone in (1, 50, 99):
        kv.evict_until(kv.counts().free + gone - evicted(kv))
        assert found(kv, list(range(400))) == 400 - 4 * gone
        assert found(kv, [*range(900, 908)]) == 8
