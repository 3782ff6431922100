"""Which block is evicted next, by the plain twin of the policy (`tests.policies.twins`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..policies.twins import Block as TwinBlock
from ..policies.twins import Twin, Use
from ..policies.twins.base import Ranking
from .sequence import Ask

if TYPE_CHECKING:
    from .pool import Block

Key = tuple[Any, ...]
Hash = tuple[int, int]


@dataclass
class Victims:
    """A twin that hears of the model's blocks. Ghosts and sketches go by the manager's hashes."""

    twin: Twin
    blocks: dict[int, TwinBlock] = field(default_factory=dict)
    stored: dict[int, deque[Hash]] = field(default_factory=dict)
    """Hashes under which blocks became findable in the call that the model follows."""
    hashes: dict[Key, Hash] = field(default_factory=dict)
    """Of each key, with the weights' name before it."""
    weights: str = ""

    def taken(self, block: int, now: int) -> None:
        self.twin.now = now
        self.twin.taken(block)

    def claimed(self, block: Block, now: int) -> None:
        self.twin.now = now
        self.blocks[block.id].owners = 1
        self.twin.claimed(self.blocks[block.id])

    def missed(self, key: Key, now: int) -> None:
        self.twin.now = now
        told = self.hashes.get((self.weights, *key))
        self.twin.missed((0, 0) if told is None else told)

    def insert(self, block: Block, ask: Ask | None, now: int) -> None:
        assert block.key is not None
        told = self.stored[block.id].popleft()
        known = self.hashes.setdefault((self.weights, *block.key), told)
        assert known == told, f"block {block.id}: the same prefix has another hash"
        parent = None if block.parent is None else self.blocks[block.parent]
        mine = self.blocks[block.id] = TwinBlock(block.id, told, parent, block.depth)
        if parent:
            parent.children += 1
        self.twin.now = now
        self.twin.insert(mine, use(ask))

    def hit(self, block: Block, ask: Ask | None, now: int) -> None:
        self.twin.now = now
        self.twin.hit(self.blocks[block.id], use(ask))

    def release(self, blocks: Iterable[Block], bands: dict[int, int], now: int) -> None:
        self.twin.now = now
        mine = [self.blocks[block.id] for block in blocks]
        for block in mine:
            block.owners, block.band = 0, bands[block.id]
        self.twin.released(mine)

    def first(self, leaves: list[Block], bands: dict[int, int], now: int) -> int:
        """Of these leaves, which have the lowest retention priority of all in ``bands``."""
        self.twin.now = now
        for name, band in bands.items():
            self.blocks[name].band = band
            self.twin.retained(self.blocks[name])
        return self.twin.victim([self.blocks[block.id] for block in leaves]).id

    def evicted(self, block: Block) -> None:
        self.twin.evicted(self.gone(block))

    def forgotten(self, block: Block, now: int) -> None:
        self.twin.now = now
        self.twin.forgotten(self.gone(block))

    def gone(self, block: Block) -> TwinBlock:
        """It follows nothing any more."""
        gone = self.blocks.pop(block.id)
        if gone.parent:
            gone.parent.children -= 1
        return gone

    def order(self, leaves: list[Block], now: int) -> list[int] | None:
        """All of them, the next victim first, where their order is a key of each one's own."""
        twin = self.twin
        if not isinstance(twin, Ranking) or type(twin).victim is not Ranking.victim:
            return None
        twin.now = now
        mine = [self.blocks[block.id] for block in leaves]
        return [b.id for b in sorted(mine, key=lambda b: (twin.key(b), -b.depth, b.id))]


def use(ask: Ask | None) -> Use:
    """What a policy knows of a request; of a block that is published by itself, nothing."""
    if ask is None:
        return Use()
    return Use(session=ask.session, turn=ask.turn, kind=ask.request_class, priority=ask.priority)
