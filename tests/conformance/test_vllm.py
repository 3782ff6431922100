"""vLLM: what its users hit (V) and what its own tests say (VT), in its figures where it has them.

Its queue of free blocks is kvframe's free list followed by the cached blocks in eviction order, and
its null block is ``null_block``, so that ids start at 1 as there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    MMItem,
    StaleHandleError,
)

from .helpers import cached, evicted, found, manager, owners, state, words

ROOT = Path(__file__).parents[2]
HASHES = ["sha256", "blake3", "xxh3-128"]


# --- prefill, decode, hits ------------------------------------------------------------------------


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
    assert now() == ("taken", 1, 1)
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


# --- what its users hit ---------------------------------------------------------------------------


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
