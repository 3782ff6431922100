"""An engine's free queue: lru is vLLM's list, and every policy keeps the queue whole."""

from __future__ import annotations

import random

import pytest

from kvframe.block_queue import BlockQueue
from kvframe.config import Resolved
from kvframe.errors import CapacityError, UsageError
from kvframe.flat import Access, resolve

from .test_tier_policy import BUILTIN, registry

BLOCKS = 24


class FreeList:
    """vLLM's queue as a list: unhashed blocks to the front, hashed ones to the back."""

    def __init__(self) -> None:
        self.free: list[int] = []
        self.hashed: set[int] = set()

    def take(self, n: int) -> list[int]:
        taken, self.free = self.free[:n], self.free[n:]
        self.hashed -= set(taken)
        return taken

    def hit(self, blocks: list[int]) -> None:
        self.free = [block for block in self.free if block not in blocks]

    def give(self, kept: list[int], empty: list[int]) -> None:
        self.free = empty[::-1] + self.free + kept[::-1]


def queue(name: str) -> BlockQueue[int]:
    if name != "oldest":
        return BlockQueue.named(name, BLOCKS)
    table = {"policy": "oldest"}
    return BlockQueue(
        Resolved.load("/dev/null", env={}, registry=registry(), eviction=table), BLOCKS
    )


@pytest.mark.parametrize("name", [*BUILTIN, "oldest"])
def test_requests_come_and_go(name: str) -> None:
    """Tables of requests that share prefixes; lru is compared with the list block for block."""
    chance, ours, twin = random.Random(name), queue(name), FreeList()
    ours.free([], range(BLOCKS))
    twin.give([], list(range(BLOCKS)))
    tables: list[list[int]] = []
    owners = [0] * BLOCKS
    for step in range(500):
        if tables and (chance.random() < 0.4 or ours.available < 6):
            table = tables.pop(chance.randrange(len(tables)))
            for block in table:
                owners[block] -= 1
            gone = [block for block in table if not owners[block]]
            kept = [block for block in gone if block in twin.hashed or chance.random() < 0.2]
            empty = [block for block in gone if block not in kept]
            ours.free(kept, empty)
            twin.give(kept, empty)
            twin.hashed |= set(kept)
        else:
            cached = [block for block in sorted(twin.hashed) if chance.random() < 0.2]
            ours.hit(cached)
            twin.hit(cached)
            new = ours.take(min(chance.randrange(4), ours.available))
            if name == "lru":
                assert new == twin.take(len(new))
            twin.free = [block for block in twin.free if block not in new]
            twin.hashed -= set(new)
            full = new[: chance.randrange(len(new) + 1)]
            # Two blocks may hold the same.
            ours.insert(
                full, [b"key %d" % chance.randrange(9) for _ in full], [step % 5] * len(full)
            )
            twin.hashed |= set(full)
            tables.append(cached + new)
            for block in tables[-1]:
                owners[block] += 1
        if chance.random() < 0.1 and twin.hashed:
            lost = chance.choice(sorted(twin.hashed))
            ours.remove([lost])
            twin.hashed.discard(lost)
            if lost in twin.free:
                twin.free.remove(lost)
                twin.free.insert(0, lost)
        if chance.random() < 0.1 and set(twin.free) - twin.hashed:
            # An engine that kept the id of one that holds nothing may take it.
            bare = chance.choice([block for block in twin.free if block not in twin.hashed])
            ours.hit([bare])
            twin.hit([bare])
            tables.append([bare])
            owners[bare] = 1
        ours.check_integrity()
        assert set(ours.order()) == set(twin.free)
        assert ours.available == len(twin.free)
        if name == "lru":
            assert ours.order() == twin.free
    assert ours.failures == 0
    assert ours.evictions > 0


@pytest.mark.parametrize("name", [*BUILTIN, "oldest"])
def test_a_pool_in_use_is_taken_over(name: str) -> None:
    """Its blocks have owners and contents before the queue has handed out any."""
    ours = queue(name)
    ours.insert([3, 1, 2], [b"a", b"b", b"c"], [0, 1, 2])
    ours.free([3, 1], [0])
    assert ours.order()[0] == 0
    ours.hit([3])
    assert sorted(ours.take(2)) == [0, 1]
    ours.check_integrity()


def test_blocks_that_hold_nothing_are_taken_before_any_is_evicted() -> None:
    ours = BlockQueue.named("lfu", 4)
    ours.insert([0, 1], [b"a", b"b"], [0, 1])
    ours.free([0, 1], [2])
    assert ours.order() == [2, 1, 0]
    ours.hit([0])
    ours.free([0])
    assert ours.take(2) == [2, 1]
    assert ours.evictions == 1


def test_a_block_that_is_kept_without_a_key_has_a_place_and_may_be_found_again() -> None:
    ours = BlockQueue.named("lru", 5)
    ours.insert([0, 1], [b"a", b"b"], [0, 1])
    ours.free([0])
    ours.free([3])
    ours.free([1], [2])
    assert ours.order() == [2, 0, 3, 1]
    ours.hit([3])
    ours.free([], [3])
    assert ours.order() == [3, 2, 0, 1]
    ours.hit([2, 4])
    assert ours.take(3) == [3, 0, 1]
    with pytest.raises(CapacityError, match="needs 1 blocks"):
        ours.take(1)


def test_a_block_that_loses_its_key_is_free_once_it_has_no_owner() -> None:
    ours = BlockQueue.named("lru", 3)
    ours.insert([0, 1], [b"a", b"b"], [0, 1])
    ours.free([0])
    ours.remove([0, 2])
    assert ours.order() == [0]
    # An engine that dropped a key itself says so at the end.
    ours.free([], [1])
    assert ours.order() == [1, 0]
    ours.check_integrity()


class Block:
    """An engine's own object."""


def test_an_engine_may_pass_its_own_objects() -> None:
    blocks = [Block() for _ in range(4)]
    ours = BlockQueue(resolve("lru"), 4, handles=blocks)
    ours.insert(blocks[:3], [b"a", None, b"c"], [0, 1, 2])
    ours.free(tuple(blocks[2:]), blocks[:2])
    assert ours.order() == [blocks[1], blocks[0], blocks[3], blocks[2]]
    ours.switch(resolve("lfu"))
    assert ours.take(2) == [blocks[1], blocks[0]]
    ours.hit(iter(blocks[2:3]))  # type: ignore[arg-type]
    assert ours.renewed().available == 0
    for given in ([Block()], [0], [None]):
        with pytest.raises(UsageError, match=r"block = .*: not a block of this pool"):
            ours.free(given)  # type: ignore[arg-type]
    for handles in (blocks[:3], [*blocks[:3], blocks[0]]):
        with pytest.raises(UsageError, match=r"handles: ., of which 3 differ; must be 4"):
            BlockQueue(resolve("lru"), 4, handles=handles)


@pytest.mark.parametrize("name", BUILTIN)
def test_places_in_a_row_are_told_by_the_first_and_the_engine_may_call_what_is_compiled(
    name: str,
) -> None:
    by_each, by_first, compiled = queue(name), queue(name), queue(name)
    keys = [b"a", None, b"b", b"c"]
    use = Access(tokens=64)
    by_each.insert([3, 5, 4, 2], keys, [6, 7, 8, 9], use)
    by_first.insert([3, 5, 4, 2], keys, 6, use)
    compiled.native.insert([3, 5, 4, 2], keys, 6, 64)
    for ours in (by_each, by_first, compiled):
        ours.free([3, 4, 2])
        ours.check_integrity()
    compiled.native.hit([4], 64)
    for ours in (by_each, by_first):
        ours.hit([4], use)
    assert by_each.order() == by_first.order() == compiled.order()


@pytest.mark.parametrize("name", [*BUILTIN, "oldest"])
def test_a_block_may_come_to_hold_something_else(name: str) -> None:
    ours = queue(name)
    ours.insert([0, 1], [b"a", b"b"], [0, 1])
    ours.insert([1, 2], [b"c", b"d"], [1, 2])
    ours.check_integrity()
    ours.free([0, 1, 2], [3])
    assert ours.order()[0] == 3
    assert sorted(ours.take(4)) == [0, 1, 2, 3]
    assert ours.evictions == 3


@pytest.mark.parametrize("old", ["lru", "arc", "oldest"])
@pytest.mark.parametrize("new", [*BUILTIN, "oldest"])
def test_another_policy_takes_the_blocks_over_and_back(old: str, new: str) -> None:
    ours, others = queue(old), queue(new).resolved
    ours.insert([0, 1, 2, 3, 4], [b"a", b"b", b"c", b"d", b"e"], [0, 1, 2, 0, 1])
    ours.free([3, 6])
    ours.free([0, 1, 2], [5])
    ours.take(1)
    before, evicted = ours.order(), ours.evictions
    ours.switch(others)
    assert ours.policy == new
    ours.check_integrity()
    assert set(ours.order()) == set(before)
    assert ours.evictions == evicted
    ours.hit([0, 3, 6])
    ours.free([4])
    with pytest.raises(UsageError, match="block = 4: has no owner"):
        ours.free([4])
    ours.switch(queue(old).resolved)
    ours.check_integrity()
    assert sorted(ours.order()) == [1, 2, 4]


def test_under_lru_the_order_survives_a_switch_and_use_counts_survive_lru() -> None:
    ours = BlockQueue.named("lru", 6)
    ours.insert([0, 1, 2, 3], [b"a", b"b", b"c", b"d"], [0, 1, 2, 3])
    ours.free([0, 1, 2, 3], [4])
    for block in (1, 1, 0, 3):
        ours.hit([block])
        ours.free([block])
    before = ours.order()
    assert before == [4, 2, 1, 0, 3]
    ours.switch(resolve("lru"))
    assert ours.order() == before
    ours.switch(resolve("lfu"))
    # Used once, twice, twice, three times.
    assert ours.order() == [4, 2, 0, 3, 1]


def test_a_switch_that_cannot_be_made_changes_nothing() -> None:
    ours = BlockQueue.named("lru", 3)
    ours.free([], [0, 1, 2])
    with pytest.raises(UsageError, match="resolved = 'lfu': must be a Resolved"):
        ours.switch("lfu")  # type: ignore[arg-type]
    assert (ours.policy, ours.order()) == ("lru", [2, 1, 0])


def test_a_renewed_queue_has_learnt_nothing() -> None:
    ours = BlockQueue.named("lru", 3)
    ours.free([], [0, 1, 2])
    assert ours.renewed().available == 0
    assert ours.renewed().policy == "lru"


@pytest.mark.parametrize("name", ["lru", "oldest"])
def test_misuse_is_refused_and_changes_nothing(name: str) -> None:
    ours = queue(name)
    ours.insert([0, 1, 2], [b"a", b"b", b"c"], [0, 1, 2])
    ours.free([0], [3])
    before = ours.order()
    for call, message in (
        (lambda: ours.free([1, 0]), "block = 0: has no owner"),
        (lambda: ours.free([1, 1]), "block = 1: named twice"),
        (lambda: ours.free([1], [1]), "block = 1: named twice"),
        (lambda: ours.free([], [3]), "block = 3: has no owner"),
        (lambda: ours.hit([1, 1]), "block = 1: named twice"),
        (lambda: ours.hit([BLOCKS]), f"block = {BLOCKS}: not a block of this pool"),
        (lambda: ours.insert([5, 0], [b"x", b"y"], [0, 0]), "block = 0: has no owner"),
        (lambda: ours.insert([5], [], [0]), "1 blocks, 0 keys, 1 depths"),
        (lambda: ours.insert([5], [b"x"], 2**32 - 1), "depths = 4294967295: too far from 0"),
        (lambda: ours.insert([5], [b"x"], -1), "depth = -1: must be an integer between 0"),
        (lambda: ours.remove([BLOCKS]), f"block = {BLOCKS}: not a block of this pool"),
        (lambda: BlockQueue("lru", 3), "resolved = 'lru': must be a Resolved"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match=message):
            call()
        assert ours.order() == before
        ours.check_integrity()
