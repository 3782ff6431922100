"""Blocks as a dict, owners as lists of names, and the order of death as one full sort."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]


@dataclass
class Block:
    """A block that is not free."""

    id: int
    group: int
    owners: list[str]
    key: Key | None = None
    parent: int | None = None
    depth: int = 0
    uses: int = 0
    inserted: int = 0
    last: int = 0
    """Tick of the last use."""
    left: int = 0
    """How many blocks had lost their last owner before it did."""
    age: int = 0
    reach: int = 0
    """Tokens of the longest request through it."""

    @property
    def state(self) -> str:
        if "loan" in self.owners:
            return "on loan"
        return ("committed" if self.owners else "cached") if self.key else "pending"


Rank = Callable[[Block], tuple[Any, ...]]


def tail_optimized(spare: int, size: int) -> Rank:
    """t-lru: first what the next prefill can recompute within its budget, then by last use."""
    return lambda b: (b.reach - b.depth * size > spare, b.last, b.left)


RANKS: dict[str, Rank] = {
    "lru": lambda b: (b.left,),
    "fifo": lambda b: (b.inserted, -b.depth, b.id),
    "lfu": lambda b: (b.uses, b.last, -b.depth, b.id),
    "lfuda": lambda b: (b.age + b.uses, b.last, -b.depth, b.id),
    "slru": lambda b: (b.uses >= 2, b.last, -b.depth, b.id),
    "test-scores": lambda b: (-b.uses, b.id),
    "test-names": lambda b: (-b.depth, b.id),
}
"""What dies first is least, of the blocks that may die. Of a policy that is not here (its order
is no key of a block's own, or has a twin elsewhere) the model checks that each victim may die."""
OUTSIDE = {"t-lru", "test-scores", "test-names"}
"""Policies that live outside the core, whose settled order is the built-in one."""


@dataclass
class Pool:
    """The blocks of one pool; ``first`` is 1 if block 0 is reserved."""

    total: int
    first: int
    policy: str
    rank: Rank | None
    blocks: dict[int, Block] = field(default_factory=dict)
    victims: deque[int] = field(default_factory=deque)
    """What the manager evicted in the call that the model follows, in order."""
    now: int = 0
    lost: int = 0
    age: int = 0
    stats: dict[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> int:
        return self.total - self.first

    @property
    def free(self) -> int:
        return self.usable - len(self.blocks)

    def cached(self) -> list[Block]:
        return [b for b in self.blocks.values() if not b.owners]

    def room(self) -> int:
        return self.free + len(self.cached())

    def count(self, name: str, more: int = 1) -> None:
        self.stats[name] = self.stats.get(name, 0) + more

    def leaves(self) -> list[Block]:
        """What may die: found by its key, without an owner, and nothing found follows it."""
        followed = {b.parent for b in self.blocks.values()}
        leaves = [b for b in self.cached() if b.id not in followed]
        return sorted(leaves, key=self.rank) if self.rank else leaves

    def check_order(self, told: list[int]) -> None:
        """The order of death as far as it is settled."""
        if self.policy == "lru" or self.policy in OUTSIDE:
            wanted = [b.id for b in sorted(self.cached(), key=RANKS["lru"])]
        elif self.rank is not None:
            wanted = [b.id for b in self.leaves()]
        else:
            assert len(set(told)) == len(told), f"{told} names a block twice"
            assert set(told) <= {b.id for b in self.cached()}, f"{told}: not all of it is cached"
            return
        assert told == wanted, f"order: {told}, but must be {wanted}"

    def named(self, key: Key) -> list[Block]:
        """Blocks found under a key, the lowest id first."""
        return sorted((b for b in self.blocks.values() if b.key == key), key=lambda b: b.id)

    def evict(self) -> None:
        leaves = self.leaves()
        assert self.victims, f"nothing was evicted, and {leaves[0].id} had to be"
        victim = self.blocks[self.victims.popleft()]
        assert victim in leaves, f"{victim.id} was evicted, and may not die"
        first = victim if self.rank is None else leaves[0]
        assert victim is first, f"{victim.id} was evicted, and {first.id} comes before it"
        self.age = victim.age + victim.uses
        del self.blocks[victim.id]
        self.count("evictions")

    def obtain(self, block: int, group: int, owner: str) -> Block:
        """A free block, or the one that dies next. Which free one is told, not foretold."""
        if not self.free:
            self.evict()
        assert self.first <= block < self.total, f"there is no block {block}"
        assert block not in self.blocks, (
            f"block {block} was given out, and is {self.blocks[block].state}"
        )
        self.blocks[block] = Block(block, group, [owner], age=self.age)
        self.count("allocated", int(owner != "loan"))
        return self.blocks[block]

    def own(self, blocks: Iterable[Block], owner: str) -> None:
        for block in blocks:
            if not block.owners:
                block.age = self.age
            block.owners.append(owner)

    def hit(self, block: Block, tokens: int) -> None:
        block.uses += 1
        block.last = self.now
        block.age = self.age
        block.reach = max(block.reach, tokens)

    def insert(self, block: Block, tokens: int) -> None:
        block.uses, block.inserted, block.last, block.reach = 1, self.now, self.now, tokens

    def rename(self, blocks: Iterable[Block], owner: str, to: str) -> None:
        for block in blocks:
            block.owners[block.owners.index(owner)] = to

    def drop(self, blocks: Iterable[Block], owner: str) -> None:
        """An owner less for each, in this order: what nobody owns is cached, or free."""
        left: list[Block] = []
        for block in blocks:
            block.owners.remove(owner)
            if block.owners:
                continue
            if block.key is None:
                del self.blocks[block.id]
                continue
            left.append(block)
            twins = [b for b in self.named(block.key) if b is not block]
            if twins and all(b.parent != block.id for b in self.blocks.values()):
                # One of two copies is enough; the other takes its place in the order.
                self.leave(left)
                left = []
                del self.blocks[block.id]
                if not twins[0].owners:
                    twins[0].age = self.age
                    left = [twins[0]]
        self.leave(left)

    def leave(self, blocks: list[Block]) -> None:
        reach = 0
        for block in blocks:
            self.lost += 1
            block.left, block.last = self.lost, self.now
            block.reach = reach = max(block.reach, reach)
        above = self.blocks.get(blocks[-1].parent) if blocks else None  # type: ignore[arg-type]
        while above and above.reach < reach:
            above.reach = reach
            above = self.blocks.get(above.parent)  # type: ignore[arg-type]

    def forget(self, doomed: Iterable[Block]) -> int:
        """Takes cached blocks away, and the keys of owned ones."""
        gone = 0
        for block in doomed:
            if block.owners:
                block.key, block.parent = None, None
            else:
                del self.blocks[block.id]
                gone += 1
        return gone
