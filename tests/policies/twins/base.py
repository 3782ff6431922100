"""What a twin sees, and what it must answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NEVER = 2**32 - 1


@dataclass(frozen=True)
class Use:
    """Who uses a block, and when it is used again."""

    next: int = NEVER
    session: int = 0
    turn: int = 0
    kind: int = 0
    priority: int = 0


@dataclass(eq=False)
class Block:
    """A findable block. Twins add what they need to ``notes``."""

    id: int
    key: tuple[int, int]
    parent: Block | None
    depth: int
    owners: int = 1
    children: int = 0
    band: int = 35
    """Its retention priority."""
    notes: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.notes[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.notes[name] = value


class Twin:
    """A policy: told what happens, it names the victim among the blocks that may be evicted."""

    def __init__(self, capacity: int, **options: int) -> None:
        self.capacity = capacity
        self.options = options
        self.block_size = 1
        self.now = 0

    def missed(self, key: tuple[int, int]) -> None:
        """A block is about to be had for ``key``, which was not found."""

    def taken(self, block: int) -> None:
        """A free block got its first owner."""

    def insert(self, block: Block, use: Use) -> None:
        """It became findable."""

    def hit(self, block: Block, use: Use) -> None:
        """An admission found it."""

    def release(self, block: Block) -> None:
        """Its last owner left."""

    def released(self, blocks: list[Block]) -> None:
        """The last owner of these left, in the order of their prefix."""
        for block in blocks:
            self.release(block)

    def retained(self, block: Block) -> None:
        """It has another retention priority now."""

    def claimed(self, block: Block) -> None:
        """It was cached and got an owner, by a hit or without one."""

    def evicted(self, block: Block) -> None:
        """It is gone."""

    def forgotten(self, block: Block) -> None:
        """It can be found no more, though it was no victim."""

    def victim(self, leaves: list[Block]) -> Block:
        """Which of those is evicted. They have the lowest retention priority of all that may."""
        raise NotImplementedError


class Ranking(Twin):
    """The lowest key is evicted first, of equals the deeper block, then the lower id."""

    def insert(self, block: Block, use: Use) -> None:
        block["uses"] = 1
        block["inserted"] = block["last"] = self.now
        self.touched(block, use)

    def hit(self, block: Block, use: Use) -> None:
        block["uses"] += 1
        block["last"] = self.now
        self.touched(block, use)

    def release(self, block: Block) -> None:
        block["last"] = self.now

    def touched(self, block: Block, use: Use) -> None:
        """It was inserted or hit."""

    def key(self, block: Block) -> tuple[Any, ...]:
        raise NotImplementedError

    def victim(self, leaves: list[Block]) -> Block:
        return min(leaves, key=lambda b: (self.key(b), -b.depth, b.id))


def first(blocks: list[Block], since: str = "since") -> Block:
    """The oldest of a list, of equals the deeper block."""
    return min(blocks, key=lambda b: (b[since], -b.depth, b.id))


class Places:
    """Places at the end of lists: blocks of one operation share one, what moves gets its own."""

    def __init__(self) -> None:
        self.count = 0
        self.tick: int | None = None

    def at(self, tick: int) -> int:
        """For a block that is used at ``tick``."""
        if tick != self.tick:
            self.tick = tick
            self.count += 1
        return self.count

    def next(self) -> int:
        """Behind all others."""
        self.tick = None
        self.count += 1
        return self.count


class Keys:
    """Ghosts, oldest first. Those an admission asked for are out of the way until they are back."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], Any] = {}
        self.called: dict[tuple[int, int], Any] = {}

    def __len__(self) -> int:
        return len(self.kept)

    def add(self, key: tuple[int, int], value: Any, most: int, calls: int = 2**32) -> None:
        self.kept.pop(key, None)
        self.kept[key] = value
        self.trim(most, calls)

    def trim(self, most: int, calls: int = 2**32) -> None:
        """No more than so many, and of those that were called no more than can be in the making."""
        for keys, limit in ((self.kept, most), (self.called, calls)):
            while len(keys) > max(limit, 0):
                del keys[next(iter(keys))]

    def call(self, key: tuple[int, int]) -> bool:
        if key not in self.kept:
            return False
        self.called[key] = self.kept.pop(key)
        return True

    def pop(self, key: tuple[int, int], default: Any = None) -> Any:
        return self.called.pop(key) if key in self.called else self.kept.pop(key, default)


def mixed(key: tuple[int, int]) -> int:
    """The 64 bits of a key, low word first, by which tables place it: both words move them."""
    low, high = key
    product = (low ^ 0x9E3779B97F4A7C15) * (high ^ 0xC2B2AE3D27D4EB4F)
    return product % 2**64 ^ product >> 64
