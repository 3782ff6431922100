"""vLLM's pool alone: every way in which a block enters, leaves, or is handed out.

Runs where vLLM can be imported; a GPU is not needed.
"""

from __future__ import annotations

import importlib.util
import random
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

from kvframe_vllm import choice
from kvframe_vllm.install import put_in, take_out
from kvframe_vllm.pool import ruled, told_of, use_of_request
from kvframe_vllm.replay.check import check_pool
from vllm.v1.core.block_pool import BlockPool

from kvframe.flat import UNKNOWN, Access

BLOCKS = 40


def pool_under(policy: str = "lru", blocks: int = BLOCKS) -> Any:
    pool = BlockPool(blocks, True, 16, enable_kv_cache_events=True)
    put_in(pool, choice.resolved(policy))
    return pool


def key(number: int) -> bytes:
    return number.to_bytes(36, "little")


def hashed(pool: Any, numbers: list[int]) -> list[Any]:
    """Owned blocks that hold the given, as the prefix of one request."""
    blocks = pool.get_new_blocks(len(numbers))
    for place, (block, number) in enumerate(zip(blocks, numbers, strict=True)):
        pool._insert_block_hash(key(number), block, num_tokens=16 * (place + 1))
    if ruled(pool):
        pool.free_block_queue.entered(blocks, range(len(blocks)))
    return list(blocks)


def ids(blocks: Any) -> list[int]:
    return [block.block_id for block in blocks]


def free_ids(pool: Any) -> list[int]:
    return ids(pool.free_block_queue.get_all_free_blocks())


@pytest.mark.parametrize("seed", range(10))
def test_lru_hands_out_what_stock_hands_out(seed: int) -> None:
    """Random requests that share blocks, on both pools; two blocks may have one hash. Some blocks
    are unpinned while they are read, with a hash or without, and found again by their id.
    """
    pools = BlockPool(BLOCKS, True, 16, enable_kv_cache_events=True), pool_under()
    reused: tuple[list[int], list[int]] = [], []
    chance = random.Random(seed)
    tables: list[list[int]] = []
    for _ in range(400):
        verb = chance.random()
        if tables and (verb < 0.4 or pools[0].get_num_free_blocks() < 6):
            table = tables.pop(chance.randrange(len(tables)))
            read = chance.random() < 0.3
            for pool, told in zip(pools, reused, strict=True):
                gone = [pool.blocks[block] for block in reversed(table)]
                if read:
                    # As HiSparse does: page by page, from the tail.
                    for block in gone:
                        pool.unpin_blocks([block], lambda one, told=told: told.append(one.block_id))
                else:
                    pool.free_blocks(gone)
        elif verb < 0.9:
            numbers = [chance.randrange(12) for _ in range(chance.randrange(4))]
            known = {block.block_id for block in pools[0].blocks if block.block_hash}
            known |= pools[0]._reuse_watchers.keys()
            found = chance.sample(sorted(known), min(len(known), chance.randrange(3)))
            bare = chance.randrange(2)
            both = []
            for pool in pools:
                pool.touch([pool.blocks[block] for block in found])
                both.append([*found, *ids(hashed(pool, numbers)), *ids(pool.get_new_blocks(bare))])
            assert both[0] == both[1]
            tables.append(both[0])
        elif not tables:
            assert pools[0].reset_prefix_cache() == pools[1].reset_prefix_cache() is True
        assert free_ids(pools[0]) == free_ids(pools[1])
        assert pools[0].take_events() == pools[1].take_events()
        assert reused[0] == reused[1]
        assert ruled(pools[1])
        pools[1].free_block_queue.core.check_integrity()
    assert reused[0]


def test_the_null_block_is_never_handed_out() -> None:
    pool = pool_under()
    assert 0 not in ids(pool.get_new_blocks(BLOCKS - 1))
    pool.free_blocks([pool.null_block])
    pool.touch([pool.null_block])
    assert pool.get_num_free_blocks() == 0


def test_evicted_by_a_connector_owned_or_free() -> None:
    pool = pool_under()
    owned, free = hashed(pool, [1, 2])
    pool.free_blocks([free])
    pool.evict_blocks({owned.block_id, free.block_id})
    # A block that holds nothing is taken before any that does.
    assert free_ids(pool)[0] == free.block_id
    check_pool(pool)
    pool.free_blocks([owned])
    assert free_ids(pool)[0] == owned.block_id
    check_pool(pool)


def test_hashes_that_move_to_a_copy_leave_the_block() -> None:
    pool = pool_under()
    [source] = hashed(pool, [1])
    [copy] = pool.get_new_blocks(1)
    pool.move_block_hashes(source, copy)
    pool.free_blocks([copy, source])
    assert free_ids(pool)[0] == source.block_id
    assert free_ids(pool)[-1] == copy.block_id
    check_pool(pool)


@pytest.mark.parametrize("policy", ["lru", "lfu", "arc"])
def test_unpinned_blocks_are_as_recent_as_freed_ones_with_or_without_a_hash(policy: str) -> None:
    pool, reused = pool_under(policy), []
    cached, [bare] = hashed(pool, [1, 2]), pool.get_new_blocks(1)
    pool.unpin_blocks([cached[1], bare], lambda block: reused.append(block.block_id))
    pool.free_blocks(cached[:1])
    check_pool(pool)
    assert free_ids(pool)[-3:] == ids([cached[1], bare, cached[0]])
    # One that has no hash is found again by whom it was told of, and then holds nothing.
    pool.touch([bare])
    pool.free_blocks([bare])
    assert free_ids(pool)[0] == bare.block_id
    pool.get_new_blocks(BLOCKS - 1)
    assert sorted(reused) == sorted(ids([cached[1], bare]))
    assert ruled(pool)


def test_a_free_block_that_holds_nothing_can_be_touched() -> None:
    pool = pool_under()
    block = pool.free_block_queue.get_all_free_blocks()[3]
    pool.touch([block])
    pool.touch([block])
    assert block.block_id not in ids(pool.get_new_blocks(BLOCKS - 2))
    assert ruled(pool)
    pool.free_blocks([block, block])
    assert ids(pool.get_new_blocks(1)) == [block.block_id]


def test_blocks_that_are_read_keep_their_place_when_a_policy_comes() -> None:
    pool = BlockPool(BLOCKS, True, 16)
    cached, bare = hashed(pool, [1, 2]), pool.get_new_blocks(1)
    pool.free_blocks(cached[:1])
    pool.unpin_blocks(bare, lambda block: None)
    pool.free_blocks(cached[1:])
    before = free_ids(pool)
    put_in(pool, choice.resolved("lru"))
    assert free_ids(pool) == before
    check_pool(pool)


def test_a_hash_that_is_dropped_while_its_block_is_owned() -> None:
    pool = pool_under()
    kept, dropped = hashed(pool, [1, 2])
    pool._maybe_evict_cached_block(dropped)
    pool.free_blocks([dropped, kept])
    assert free_ids(pool)[0] == dropped.block_id
    check_pool(pool)


def test_blocks_of_another_pool_go_back_to_it() -> None:
    ours, other = pool_under(), BlockPool(BLOCKS, True, 16)
    ours.free_blocks([*ours.get_new_blocks(2), *other.get_new_blocks(3)])
    assert ours.get_num_free_blocks() == other.get_num_free_blocks() == BLOCKS - 1


def test_the_queue_can_be_walked_from_a_block_on() -> None:
    pool = pool_under()
    queue, blocks = pool.free_block_queue, pool.free_block_queue.get_all_free_blocks()
    assert list(queue.iter_blocks_after(None)) == blocks
    assert list(queue.iter_blocks_after(blocks[3])) == blocks[4:]
    first = queue.popleft()
    assert first is blocks[0]
    first.ref_cnt = 1
    assert list(queue.iter_blocks_after(first)) == []
    first.ref_cnt = 0
    queue.append(first)
    check_pool(pool)


def test_in_and_out_of_a_pool_in_use() -> None:
    pool = BlockPool(BLOCKS, True, 16)
    owned = hashed(pool, [1, 2, 3])
    pool.free_blocks(reversed(hashed(pool, [4, 5])))
    before = free_ids(pool)
    put_in(pool, choice.resolved("lru"))
    assert free_ids(pool) == before
    pool.free_blocks(reversed(owned))
    check_pool(pool)
    before = free_ids(pool)
    take_out(pool)
    assert type(pool) is BlockPool
    assert free_ids(pool) == before
    assert ids(pool.get_new_blocks(BLOCKS - 1)) == before


# --- what clients say -----------------------------------------------------------------------------

LOOSE: list[Any] = [
    None, True, -1, 0, 7, 2**64, -(2**40), 1.5, float("nan"), "", "name", "\ud800", "x" * 10_000,
    b"bytes", [], [1], {}, {"session": 1}, {1: 2}, object(),
]  # fmt: skip


def test_loose_values_of_clients_never_raise() -> None:
    chance, pool = random.Random(0), pool_under("lfu", 20)
    names = ["session", "turn", "request_class", "priority", "tokens", "next_use", "other"]
    for _ in range(5000):
        told: Any = {chance.choice(names): chance.choice(LOOSE) for _ in range(3)}
        request = SimpleNamespace(
            kv_transfer_params=chance.choice([{"kvframe": told}, chance.choice(LOOSE)]),
            session_id=chance.choice(LOOSE),
            priority=chance.choice(LOOSE),
            num_tokens=99,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use = told_of(request)
        [block] = pool.get_new_blocks(1)
        pool._insert_block_hash(key(chance.randrange(99)), block, num_tokens=16)
        pool.free_block_queue.entered([block], [0], use)
        pool.free_blocks([block])
    assert ruled(pool)


def test_what_a_request_says_reaches_the_policy() -> None:
    def use(**fields: Any) -> Access:
        given = {"kv_transfer_params": None, "session_id": None, "priority": 0, "num_tokens": 9}
        return use_of_request(SimpleNamespace(**given | fields))

    assert use() == Access(tokens=9)
    assert use(priority=2, session_id="chat") == Access(tokens=9, priority=-2, session="chat")
    assert use(kv_transfer_params={"kvframe": {"turn": 3}}) == Access(tokens=9, turn=3)
    assert use(kv_transfer_params={"kvframe": {"turn": "no"}}, priority=object()) == UNKNOWN
