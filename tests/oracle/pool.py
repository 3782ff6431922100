"""Blocks as a dict, owners as lists of names, and the order of death as one full sort."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvframe import EventKind

from .sequence import Ask
from .victims import Key, Victims

INNER, DEFAULT = 34, 35
"""Retention priorities where no request asks for one."""
Bands = dict[int, int]
"""Of each block with another than the default one."""


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
    reach: int = 0
    """Tokens of the longest request through it."""
    inner: bool = False
    """Left behind by the only sequence that had it, which no end of a prompt needs."""
    left_once: bool = False
    """By a sequence that gave it up or ended."""
    session: int = 0
    """The one that alone used it; 0: others did, too."""

    @property
    def findable(self) -> bool:
        """By a prefix of tokens."""
        return self.key is not None and len(self.key) > 2

    @property
    def state(self) -> str:
        if "loan" in self.owners:
            return "taken"
        return ("committed" if self.owners else "cached") if self.key else "pending"


Rank = Callable[[Block], tuple[Any, ...]]


def tail_optimized(spare: int, size: int) -> Rank:
    """t-lru: first what the next prefill can recompute within its budget, then by last use."""
    return lambda b: (b.reach - b.depth * size > spare, b.last, b.left)


RANKS: dict[str, Rank] = {
    "lru": lambda b: (b.left,),
    "test-scores": lambda b: (-b.uses, b.id),
    "test-names": lambda b: (-b.depth, b.id),
}
"""The least of the blocks that may be evicted goes first; other policies have a twin."""
OUTSIDE = {"t-lru", "test-scores", "test-names"}
"""Policies that live outside the core, whose settled order is the built-in one."""


@dataclass
class Pool:
    """The blocks of one pool; ``first`` is 1 if block 0 is reserved."""

    total: int
    first: int
    policy: str
    rank: Rank | None = None
    twin: Victims | None = None
    """Of a policy with neither, any block may be evicted that the core offers."""
    blocks: dict[int, Block] = field(default_factory=dict)
    victims: deque[tuple[int, Bands]] = field(default_factory=deque)
    """What the manager evicted in the call that the model follows, in order, each with what blocks'
    priorities were.
    """
    retains: bool = False
    """Requests ask for retention priorities, which are told; else they are foretold."""
    bands: Bands = field(default_factory=dict)
    now: int = 0
    lost: int = 0
    stats: dict[str, int] = field(default_factory=dict)
    attached: dict[Key, tuple[Key | None, int]] = field(default_factory=dict)
    """Handles of exact prefixes, with the key of the last full block before their end, if any."""
    dropped: list[int] = field(default_factory=list)
    freed: dict[int, int] = field(default_factory=dict)
    """How often each block was."""

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

    def room_to_come(self) -> int:
        """The same once every fence has passed."""
        return self.room() + sum(set(b.owners) == {"fence"} for b in self.blocks.values())

    def count(self, name: str, more: int = 1) -> None:
        self.stats[name] = self.stats.get(name, 0) + more

    def leaves(self) -> list[Block]:
        """What may be evicted: found by its key, without an owner, and nothing found follows it."""
        followed = {b.parent for b in self.blocks.values()}
        leaves = [b for b in self.cached() if b.id not in followed]
        return sorted(leaves, key=self.rank) if self.rank else leaves

    def hear(self, events: Mapping[str, Any]) -> None:
        """Who died in a call, and the priorities that blocks had when it did."""
        columns = (events[name].tolist() for name in ("kind", "block", "value"))
        for kind, block, value in zip(*columns, strict=True):
            if kind == EventKind.EVICT:
                self.victims.append((block, dict(self.bands)))
            elif kind == EventKind.RETAIN:
                self.bands[block] = value
            elif kind == EventKind.STORE:
                self.bands.pop(block, None)

    def band(self, block: Block, bands: Bands) -> int:
        """The retention priority of a block that is found."""
        told = bands.get(block.id, DEFAULT)
        wanted = INNER if block.inner else DEFAULT
        assert self.retains or told == wanted, f"{block.id} has priority {told}, not {wanted}"
        return told

    def descent(self) -> list[int]:
        """The leaves and, as these go, what they follow: by priority, then least recently used."""
        rest, order = dict(self.blocks), list[int]()
        while True:
            followed = {b.parent for b in rest.values()}
            leaves = [b for b in rest.values() if not b.owners and b.id not in followed]
            if not leaves:
                return order
            first = min(leaves, key=lambda b: (self.band(b, self.bands), b.left))
            del rest[first.id]
            order.append(first.id)

    def check_order(self, told: list[int]) -> None:
        """The order of death as far as it is settled."""
        wanted: list[int] | None = None
        if self.policy == "lru" or self.policy in OUTSIDE:
            wanted = self.descent()
        elif self.twin is not None:
            wanted = []
            all_leaves = self.leaves()
            bands = [self.band(b, self.bands) for b in all_leaves]
            for band in sorted(set(bands)):
                leaves = [b for b, its in zip(all_leaves, bands, strict=True) if its == band]
                order = self.twin.order(leaves, self.now)
                wanted = None if wanted is None or order is None else wanted + order
        if wanted is None:
            assert len(set(told)) == len(told), f"{told} names a block twice"
            assert set(told) <= {b.id for b in self.cached()}, f"{told}: not all of it is cached"
        else:
            assert told == wanted, f"order: {told}, but must be {wanted}"

    def named(self, key: Key) -> list[Block]:
        """Blocks found under a key, the lowest id first."""
        return sorted((b for b in self.blocks.values() if b.key == key), key=lambda b: b.id)

    def evict(self, cause: str) -> None:
        leaves = self.leaves()
        assert self.victims, f"nothing was evicted, and {leaves[0].id} had to be"
        named, told = self.victims.popleft()
        victim = self.blocks[named]
        assert victim in leaves, f"{victim.id} was evicted, and may not be evicted"
        bands = {b.id: self.band(b, told) for b in leaves}
        lowest = min(bands.values())
        leaves = [b for b in leaves if bands[b.id] == lowest]
        assert victim in leaves, f"{victim.id} was evicted, of priority {bands[named]}: {bands}"
        # Where another priority goes first, victims stand in for those that a policy named.
        stands_in = self.policy == "test-names" and len(set(bands.values())) > 1
        first = leaves[0].id if self.rank and not stands_in else victim.id
        if self.twin:
            first = self.twin.first(leaves, bands, self.now)
        assert victim.id == first, f"{victim.id} was evicted, and {first} comes before it"
        if self.twin:
            self.twin.evicted(victim)
        self.vacate(victim.id)
        self.lose_attached(victim.key)
        self.count("evictions")
        if cause != "sequence":
            self.count(f"evictions_{cause}")

    def vacate(self, block: int) -> None:
        del self.blocks[block]
        self.freed[block] = self.freed.get(block, 0) + 1

    def lose_attached(self, key: Key | None) -> None:
        """What is attached goes with the last block that carries it."""
        if self.attached and key and not self.named(key):
            gone = [name for name, (at, _) in self.attached.items() if at == key]
            self.dropped += [self.attached.pop(name)[1] for name in gone]

    def lose_below(self, most: int) -> None:
        """Of prefixes without a full block, the oldest are lost beyond a number."""
        below = [name for name, (at, _) in self.attached.items() if at is None]
        for name in below[: max(len(below) - most, 0)]:
            self.dropped.append(self.attached.pop(name)[1])

    def obtain(self, block: int, group: int, owner: str) -> Block:
        """A free block, or the one that is evicted next. Which free one is told, not foretold."""
        if not self.free:
            self.evict("for_taken" if owner == "loan" else "sequence")
        assert self.first <= block < self.total, f"there is no block {block}"
        assert block not in self.blocks, (
            f"block {block} was given out, and is {self.blocks[block].state}"
        )
        self.blocks[block] = Block(block, group, [owner])
        if self.twin:
            self.twin.taken(block, self.now)
        self.count("allocated", int(owner != "loan"))
        return self.blocks[block]

    def missed(self, key: Key) -> None:
        """An admission is about to get a block for a prefix that was not found."""
        if self.twin:
            self.twin.missed(key, self.now)

    def own(self, blocks: Iterable[Block], owner: str) -> None:
        for block in blocks:
            if not block.owners and self.twin:
                self.twin.claimed(block, self.now)
            block.owners.append(owner)

    def hit(self, block: Block, tokens: int, ask: Ask | None) -> None:
        block.uses += 1
        block.last = self.now
        block.reach = max(block.reach, tokens)
        if self.twin:
            self.twin.hit(block, ask, self.now)

    def used(self, block: Block, ask: Ask | None) -> None:
        if block.session != (ask.session if ask else 0):
            block.session = 0

    def insert(self, block: Block, tokens: int, ask: Ask | None) -> None:
        block.session = ask.session if ask else 0
        block.uses, block.inserted, block.last, block.reach = 1, self.now, self.now, tokens
        if self.twin:
            self.twin.insert(block, ask, self.now)

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
                self.vacate(block.id)
                continue
            left.append(block)
            twins = [b for b in self.named(block.key) if b is not block]
            if twins and all(b.parent != block.id for b in self.blocks.values()):
                # One of two copies is enough; the other takes its place in the order.
                self.leave(left)
                left = []
                self.forget([block])
                twins[0].inner = twins[0].inner and block.inner
                twins[0].left_once = twins[0].left_once or block.left_once
                if twins[0].session != block.session:
                    twins[0].session = 0
                if not twins[0].owners:
                    if self.twin:
                        self.twin.claimed(twins[0], self.now)
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
        if self.twin:
            bands = {block.id: self.band(block, self.bands) for block in blocks}
            self.twin.release(blocks[::-1], bands, self.now)

    def forget(self, doomed: Iterable[Block]) -> int:
        """Takes cached blocks away, and the keys of owned ones."""
        gone = 0
        for block in sorted(doomed, key=lambda b: (-b.depth, b.id)):
            key = block.key
            if self.twin and key is not None:
                self.twin.forgotten(block, self.now)
            if block.owners:
                block.key, block.parent = None, None
            else:
                self.vacate(block.id)
                gone += 1
            self.lose_attached(key)
        return gone
