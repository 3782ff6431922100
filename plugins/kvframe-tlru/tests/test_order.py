"""The policy against a naive twin: random requests that share prefixes, run at once, and end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

import kvframe
from kvframe.errors import CapacityError

BLOCK = 4
Prefix = tuple[int, ...]
"""A block by the numbers of all blocks up to it."""


@dataclass
class Twin:
    """T-LRU from its definition: one block at a time, every leaf looked at."""

    capacity: int
    spare: int
    owners: dict[Prefix, int] = field(default_factory=dict)
    reach: dict[Prefix, int] = field(default_factory=dict)
    left: dict[Prefix, tuple[int, int]] = field(default_factory=dict)  # last use, then depth
    tails: int = 0
    clock: int = 0

    def free(self) -> int:
        return self.capacity - len(self.owners) - self.tails

    def admit(self, chain: list[Prefix], tokens: int) -> int | None:
        """Blocks found, or None where the request does not fit."""
        found = next((i for i, block in enumerate(chain) if block not in self.owners), len(chain))
        missing = len(chain) - found + 1 - self.free()
        held = set(chain[:found])
        if missing > sum(not n and block not in held for block, n in self.owners.items()):
            return None
        for block in held:
            self.owners[block] += 1
        for _ in range(missing):
            self.evict()
        self.tails += 1
        for block in chain[found:]:
            self.owners[block] = 1
        for block in chain:
            self.reach[block] = max(self.reach.get(block, 0), tokens)
        return found

    def evict(self) -> None:
        parents = {block[:-1] for block in self.owners}
        leaves = [block for block, n in self.owners.items() if not n and block not in parents]
        victim = min(leaves, key=lambda block: (not self.safe(block), self.left[block]))
        del self.owners[victim], self.reach[victim]

    def safe(self, block: Prefix) -> bool:
        return (len(block) - 1) * BLOCK >= max(0, self.reach[block] - self.spare)

    def release(self, chain: list[Prefix]) -> None:
        self.clock += 1
        self.tails -= 1
        for block in chain:
            self.owners[block] -= 1
            self.left[block] = (self.clock, -len(block))


def prompt(blocks: Prefix) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Whole blocks and one token more, so that a lookup may find all of them."""
    return np.repeat(np.array([*blocks, 999], np.uint32), BLOCK)[: len(blocks) * BLOCK + 1]


@pytest.mark.parametrize("seed", range(25))
def test_equals_the_twin(seed: int) -> None:
    dice = random.Random(seed)
    capacity = dice.randint(8, 24)
    threshold = dice.choice([4, 9, 16, 40])
    estimate = dice.randrange(threshold)
    manager = kvframe.KVCacheManager.from_toml(
        cache={"block_size": BLOCK, "capacity": capacity},
        eviction={
            "policy": "t-lru",
            "on_error": "raise",
            "options": {"threshold": threshold, "next_prompt_estimate": estimate},
        },
    )
    twin = Twin(capacity, threshold - estimate)
    running: list[tuple[int, Prefix, list[int]]] = []
    known: list[Prefix] = [()]
    for _ in range(150):
        if running and dice.random() < 0.45:
            seq, blocks, _ = running.pop(dice.randrange(len(running)))
            manager.release(seq)
            twin.release([blocks[: i + 1] for i in range(len(blocks))])
        else:
            start = dice.choice(known)
            blocks = (*start[: dice.randint(0, len(start))], *dice.choices(range(9), k=2))
            expected = twin.admit(
                [blocks[: i + 1] for i in range(len(blocks))], len(prompt(blocks))
            )
            if expected is None:
                with pytest.raises(CapacityError):
                    manager.allocate(prompt(blocks))
            else:
                grant = manager.allocate(prompt(blocks))
                assert grant.cached_tokens == expected * BLOCK
                manager.commit(grant.seq, grant.prompt_tokens)
                running.append((grant.seq, blocks, manager.block_table(grant.seq).tolist()))
                known.append(blocks)
        manager.check_integrity()
        assert manager.counts().free == twin.free()
        for seq, _, table in running:
            assert manager.block_table(seq).tolist() == table
        for blocks in known:
            held = next((i for i in range(len(blocks)) if blocks[: i + 1] not in twin.owners), None)
            found = manager.lookup(prompt(blocks)).tokens // BLOCK
            assert found == (len(blocks) if held is None else held)
    assert manager.stats.counters()["evictions"] > 20
