"""Blocks one by one: nano-vllm's block manager on kvframe's pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from kvframe import CapacityError, KVCacheManager, UsageError

from .helpers import manager

SIZE = 4


@dataclass
class Seq:
    tokens: list[int]
    table: list[int] = field(default_factory=list)
    cached: int = 0


class BlockManager:
    """The methods of nano-vllm's ``engine/block_manager.py``; the books are the engine's."""

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv, self.pool = kv, kv.blocks

    def can_allocate(self, seq: Seq) -> bool:
        return self.pool.available() >= -(-len(seq.tokens) // SIZE)

    def allocate(self, seq: Seq) -> None:
        found = self.pool.find(self.kv.blocks.hash_blocks(seq.tokens)).tolist()
        found = found[: (len(seq.tokens) - 1) // SIZE]
        self.pool.touch(found)
        fresh = self.pool.take(-(-len(seq.tokens) // SIZE) - len(found))
        seq.table, seq.cached = found + fresh.tolist(), len(found) * SIZE

    def hash_blocks(self, seq: Seq) -> None:
        keys = self.kv.blocks.hash_blocks(seq.tokens)
        for i in range(seq.cached // SIZE, len(keys)):
            self.pool.publish(seq.table[i], keys[i], seq.table[i - 1] if i else None)
        seq.cached = len(keys) * SIZE

    def can_append(self, seq: Seq) -> bool:
        return self.pool.available() >= (len(seq.tokens) % SIZE == 0)

    def may_append(self, seq: Seq, token: int) -> None:
        if len(seq.tokens) % SIZE == 0:
            seq.table += self.pool.take(1).tolist()
        seq.tokens.append(token)

    def deallocate(self, seq: Seq) -> None:
        self.pool.free(seq.table)
        seq.table, seq.cached = [], 0


@pytest.mark.scenario("V10", "V11", "IL-B3")
def test_nano_vllm_runs_on_the_pool() -> None:
    kv = manager(8)
    engine = BlockManager(kv)
    one, two = Seq([*range(9)]), Seq([*range(9)])
    for seq in (one, two):
        assert engine.can_allocate(seq)
        engine.allocate(seq)
        engine.hash_blocks(seq)
        kv.check_integrity()
    assert one.table[:2] == two.table[:2]
    assert engine.pool.holds(one.table).tolist() == [2, 2, 1]
    assert engine.pool.unowned(one.table) == 0
    for token in range(4):
        assert engine.can_append(one)
        engine.may_append(one, token)
    engine.hash_blocks(one)
    engine.deallocate(one)
    kv.check_integrity()
    assert kv.counts() == (4, 1, 3, 8)
    # What the engine published, a sequence finds, and the other way round.
    hit = kv.lookup([*range(9)])
    assert hit.tokens == 8
    engine.deallocate(two)
    assert engine.pool.unowned(hit.blocks[0]) == 2
    assert engine.pool.unowned([-1, *hit.blocks[0].tolist(), -1]) == 2
    assert kv.counts() == (5, 3, 0, 8)
    full = Seq([50] * 32)
    engine.allocate(full)
    assert kv.lookup([*range(9)]).tokens == 0
    assert not engine.can_append(full)
    with pytest.raises(CapacityError):
        engine.may_append(full, 1)
    engine.deallocate(full)
    kv.check_integrity()


@pytest.mark.scenario("V10", "FE-B26", "I13")
def test_misuse_of_single_blocks_changes_nothing() -> None:
    kv = manager(8)
    pool = kv.blocks
    keys = kv.blocks.hash_blocks([*range(8)])
    a, b = pool.take(2).tolist()
    pool.publish(a, keys[0])
    pool.publish(b, keys[1], a)
    stale = pool.generations([a, b])
    loose = int(pool.take(1)[0])
    with pytest.raises(UsageError, match=f"parent = {loose}: it is not published and in hand"):
        pool.publish(loose, keys[1], parent=loose)
    pool.free([loose])
    before = kv.counts()
    for blocks, why in (([a, b, b], "double free"), ([7], "never taken"), ([a], "follows it")):
        with pytest.raises(UsageError, match=why):
            pool.free(blocks)
    with pytest.raises(UsageError, match="not taken"):
        pool.publish(a, keys[0])
    loose = int(pool.take(1)[0])
    for block in (5, loose):
        told = f"touch = {block}: it is not findable, nor published and held"
        with pytest.raises(UsageError, match=told):
            pool.touch([block])
    with pytest.raises(UsageError, match="named twice"):
        pool.free([loose, loose])
    pool.free([loose])
    assert kv.counts() == before
    pool.free([a, b], stale)
    with pytest.raises(UsageError, match="the block it follows is not in hand"):
        pool.touch([b])
    kv.reset_prefix_cache()
    with pytest.raises(UsageError, match="stale"):
        pool.touch([a], stale[:1])
    assert pool.find(keys).tolist() == []
    kv.check_integrity()


@pytest.mark.scenario("T44")
def test_copies_under_one_key_are_told_and_one_goes_when_freed() -> None:
    kv = manager(8)
    pool = kv.blocks
    key = kv.blocks.hash_blocks([1, 2, 3, 4])[0]
    a, b = pool.take(2).tolist()
    assert pool.publish(a, key) is None
    assert pool.publish(b, np.array(key)) == a
    pool.free([a])
    pool.free([b])
    kv.check_integrity()
    assert kv.counts() == (7, 1, 0, 8)


@pytest.mark.parametrize(("keeps", "alone"), [(False, "lowest id"), (True, "published first")])
def test_find_takes_of_several_copies_the_parent_of_the_next(keeps: bool, alone: str) -> None:
    kv = KVCacheManager(cache={"capacity": 8, "block_size": SIZE, "keep_duplicates": keeps})
    pool = kv.blocks
    keys = pool.hash_blocks([*range(8)])
    low, high, later = pool.take(3).tolist()
    pool.publish(high, keys[0])
    pool.publish(low, keys[0])
    either = {"lowest id": low, "published first": high}
    first = either.pop(alone)
    assert pool.find(keys).tolist() == [first]
    (other,) = either.values()
    pool.publish(later, keys[1], other)
    assert pool.find(keys).tolist() == [other, later]
    assert pool.find(keys[:1]).tolist() == [first]
    pool.free([later])
    pool.free([low])
    pool.free([high])
    kv.check_integrity()


class PlainLRU:
    """A block manager that keeps every copy; a block is a list, and nobody's once it is evicted."""

    def __init__(self, capacity: int) -> None:
        self.free = capacity
        self.cached: list[list[int]] = []  # the block that is evicted next, first
        self.copies: dict[bytes, list[list[int]]] = {}
        self.keys: dict[int, bytes] = {}

    def allocate(self, keys: list[bytes], blocks: int, most: int) -> tuple[int, list[list[int]]]:
        """Blocks found, and the table; (-1, []) if there is no room."""
        found: list[list[int]] = []
        for key in keys[:most]:
            if not self.copies.get(key):
                break
            found.append(self.copies[key][0])
        unowned = sum(block[0] == 0 for block in found)
        fresh = blocks - len(found)
        if fresh + unowned > self.free + len(self.cached):
            return -1, []
        for block in found:
            if block[0] == 0:
                self.cached = [one for one in self.cached if one is not block]
            block[0] += 1
        table = list(found)
        for _ in range(fresh):
            if self.free:
                self.free -= 1
            else:
                gone = self.cached.pop(0)
                key = self.keys.pop(id(gone))
                self.copies[key] = [one for one in self.copies[key] if one is not gone]
            table.append([1])
        for key, block in zip(keys[len(found) :], table[len(found) :], strict=False):
            self.copies.setdefault(key, []).append(block)
            self.keys[id(block)] = key
        return len(found), table

    def release(self, table: list[list[int]]) -> None:
        for block in reversed(table):
            block[0] -= 1
            if block[0] == 0 and id(block) in self.keys:
                self.cached.append(block)
            self.free += block[0] == 0 and id(block) not in self.keys


@pytest.mark.parametrize("seed", range(4))
def test_copies_without_parents_hit_as_a_plain_lru_manager_does(seed: int) -> None:
    dice, capacity = Random(seed), 24
    cache = {"capacity": capacity, "block_size": SIZE, "keep_duplicates": True}
    kv, plain = KVCacheManager(cache=cache, eviction="lru"), PlainLRU(capacity)
    pool = kv.blocks
    running: list[tuple[list[int], list[list[int]]]] = []
    hits = refused = 0
    for _ in range(1500):
        if running and dice.random() < 0.45:
            table, twin = running.pop(dice.randrange(len(running)))
            pool.free(table)
            plain.release(twin)
            continue
        tokens = [dice.randrange(3)] * SIZE * dice.randint(1, 4) + [dice.randrange(9)] * SIZE
        tokens += [7] * dice.randrange(6)
        keys = pool.hash_blocks(tokens)
        blocks, most = -(-len(tokens) // SIZE), (len(tokens) - 1) // SIZE
        length, twin = plain.allocate([bytes(key) for key in keys], blocks, most)
        found = pool.find(keys[:most])
        if blocks - len(found) + pool.unowned(found) > pool.available():
            assert length == -1
            refused += 1
            continue
        pool.touch(found)
        table = [*found.tolist(), *pool.take(blocks - len(found)).tolist()]
        for at in range(len(found), len(keys)):
            pool.publish(table[at], keys[at])
        assert len(found) == length
        hits += length
        running.append((table, twin))
        assert kv.counts()[:2] == (plain.free, len(plain.cached))
    assert hits > 300
    assert refused > 20
    kv.check_integrity()
