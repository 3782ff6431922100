"""Policies whose order is a key of each block's own."""

from __future__ import annotations

import math
import struct
from typing import Any

from .base import NEVER, Block, Ranking, Use


class Lru(Ranking):
    """Least recently used."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return (block["last"],)


class Mru(Ranking):
    """Most recently used."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return (-block["last"],)


class Fifo(Ranking):
    """First in, first out."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return (block["inserted"],)


class Filo(Ranking):
    """First in, last out."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return (-block["inserted"],)


class Lfu(Ranking):
    """Least frequently used, then least recently."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return block["uses"], block["last"]


class Slru(Ranking):
    """SGLang's slru: fewer uses than protect, then least recently used."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return block["uses"] >= self.options["protected_uses"], block["last"]


class SlruDecay(Ranking):
    """Uses count with a pause between them, up to what protects, and for a time only."""

    def insert(self, block: Block, use: Use) -> None:
        super().insert(block, use)
        block["counted"] = self.now

    def hit(self, block: Block, use: Use) -> None:
        block["last"] = self.now
        if self.now - block["counted"] >= self.options["debounce_ticks"]:
            block["uses"] += 1
            block["counted"] = self.now

    def key(self, block: Block) -> tuple[Any, ...]:
        held = self.now - block["last"] < self.options["decay_ticks"]
        return block["uses"] >= self.options["protected_uses"] and held, block["last"]


class Lfuda(Ranking):
    """Uses plus the cache's age when the block was touched last; a victim's key is the new age."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.age = 0
        self.ages: dict[int, int] = {}

    def taken(self, block: int) -> None:
        self.ages[block] = self.age

    def touched(self, block: Block, use: Use) -> None:
        # A new block's is the age when it got its place, before those after it got theirs.
        block["age"] = self.ages[block.id] if block["uses"] == 1 else self.age

    def claimed(self, block: Block) -> None:
        block["age"] = self.age

    def key(self, block: Block) -> tuple[Any, ...]:
        return block["uses"] + block["age"], block["last"]

    def evicted(self, block: Block) -> None:
        self.age = self.key(block)[0]


class LfuAged(Ranking):
    """Uses that count half after a half-life, as the logarithm of their sum at the end of time."""

    def touched(self, block: Block, use: Use) -> None:
        this = self.now / self.options["half_life_ticks"]
        if block["uses"] == 1:
            block["sum"] = this
        else:
            before = block["sum"]
            fade = math.log1p(2.0 ** -abs(this - before)) / math.log(2)
            block["sum"] = max(this, before) + fade

    def key(self, block: Block) -> tuple[Any, ...]:
        return (block["sum"],)


class Wlfu(Ranking):
    """Last use, later by the logarithm of hits."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return (block["last"] + self.options["bonus_ticks"] * math.log1p(block["uses"] - 1),)


class Hpt(Ranking):
    """Hits by the length of the prefix up to the block."""

    def key(self, block: Block) -> tuple[Any, ...]:
        density = (block["uses"] - 1) / (block.depth + 1)
        return struct.unpack("f", struct.pack("f", density))[0], block["last"]


class GreedyDual(Ranking):
    """Cost above the level of the last victim, in 2^-16 of a block's without attention."""

    level = 0
    by_uses = False

    def touched(self, block: Block, use: Use) -> None:
        cost = 65_536 + 65_536 * block.depth // self.options["attention_blocks"]
        block["score"] = self.level + cost * (block["uses"] if self.by_uses else 1)

    def key(self, block: Block) -> tuple[Any, ...]:
        return block["score"], block["last"]

    def evicted(self, block: Block) -> None:
        self.level = block["score"]


class Cost(GreedyDual):
    """Recompute cost."""


class Gdsf(GreedyDual):
    """Uses times recompute cost."""

    by_uses = True


class Priority(Ranking):
    """The highest priority of any request that used it, then least recently used."""

    def touched(self, block: Block, use: Use) -> None:
        block["priority"] = max(block.notes.get("priority", use.priority), use.priority)

    def key(self, block: Block) -> tuple[Any, ...]:
        return block["priority"], block["last"]


class LongestFirst(Ranking):
    """Deepest, then least recently used."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return -block.depth, block["last"]


class Ttl(Ranking):
    """First to expire: the longest time to live that applied, from the last use on."""

    def touched(self, block: Block, use: Use) -> None:
        lives = self.options["session_ticks" if use.session else "one_shot_ticks"]
        block["lives"] = max(block.notes.get("lives", 0), lives)

    def key(self, block: Block) -> tuple[Any, ...]:
        return (block["last"] + block["lives"],)


class Opt(Ranking):
    """Farthest next use."""

    def touched(self, block: Block, use: Use) -> None:
        block["next"] = use.next

    def key(self, block: Block) -> tuple[Any, ...]:
        return (NEVER - block["next"],)


class BeladyCompute(Opt):
    """Longest until the next use, by cost; requests are counted by what hits and what is new."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.request = 0
        self.is_known = False
        self.inserted: int | None = None

    def insert(self, block: Block, use: Use) -> None:
        if self.inserted != self.now:
            self.request += not self.is_known
            self.is_known, self.inserted = False, self.now
        super().insert(block, use)

    def hit(self, block: Block, use: Use) -> None:
        if block["next"] != NEVER:
            self.request, self.is_known = block["next"], True
        super().hit(block, use)

    def wait(self, block: Block) -> float:
        if block["next"] == NEVER:
            return math.inf
        width = max((block.depth + 1).bit_length() - 6, 0)  # of 32 classes an octave
        place = (block.depth + 1) >> width << width
        cost = 1 + (place - 1) / self.options["attention_blocks"]
        return float((block["next"] - self.request) / cost)

    def victim(self, leaves: list[Block]) -> Block:
        return min(leaves, key=lambda b: (-self.wait(b), *self.key(b), -b.depth, b.id))


class NextUse(Opt):
    """Farthest next use, then least recently used."""

    def key(self, block: Block) -> tuple[Any, ...]:
        return NEVER - block["next"], block["last"]


class Marconi(Ranking):
    """Recency plus alpha times work saved, each by the largest. Depths in quarters of an octave."""

    newest = 0

    def release(self, block: Block) -> None:
        block["last"] = self.newest = self.now

    def touched(self, block: Block, use: Use) -> None:
        self.newest = self.now

    def saving(self, block: Block) -> float:
        octave = 1 << ((block.depth + 1).bit_length() - 1)
        start = octave * ((block.depth + 1) * 4 // octave) / 4
        return 1 + (start - 1) / self.options["attention_blocks"]

    def victim(self, leaves: list[Block]) -> Block:
        most = max(map(self.saving, leaves))
        least_idle = max(self.now - self.newest, 1)

        def score(block: Block) -> float:
            recency: float = least_idle / max(self.now - block["last"], 1)
            return recency + self.options["alpha_percent"] / 100 * (self.saving(block) / most)

        return min(leaves, key=lambda b: (score(b), b["last"], -b.depth, b.id))
