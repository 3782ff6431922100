"""What a lower tier holds, as block events: which of the pool's blocks are there, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from kvframe.stats.blocks import BlockEvent, BlockRemoved, BlockStored, joined, part

Place = tuple[BlockStored, int]
"""A run of blocks, and the place of one of them in it."""


class Changing(Protocol):
    """A tier's index."""

    def watch(self) -> None: ...
    def take_changes(self) -> tuple[list[bytes], list[tuple[bytes, bytes | None]]]: ...


class Level(Protocol):
    """A tier below the pool."""

    @property
    def medium(self) -> str: ...
    @property
    def index(self) -> Changing: ...


class LowerTier:
    """The blocks of one tier, as readers of the events know them.

    A tier knows keys and no tokens. Those come from the events of the pool, through which nearly
    every block went. A block that another engine stored, or an earlier run, has none until a
    request brings it to the pool; where readers go by tokens, it is told of only then.

    Args:
        level: The tier, whose changes are taken by nothing else.
        block_size: Tokens of a block.
        needs_tokens: Whether readers can place a block by its tokens alone.
    """

    def __init__(self, level: Level, block_size: int, *, needs_tokens: bool) -> None:
        self._level, self._needs_tokens = level, needs_tokens
        self._unknown = BlockStored((), None, np.zeros(0, np.uint32), block_size, 0)
        self._held: dict[bytes, Place] = {}
        self._waiting: dict[bytes, bytes | None] = {}
        level.index.watch()

    def find(self, key: bytes) -> Place | None:
        """Where a block's tokens are, if the tier holds it."""
        return self._held.get(key)

    def anew(self) -> None:
        """The next changes are everything that the tier holds."""
        for key in self._level.index.take_changes()[0]:
            self._held.pop(key, None)
        self._level.index.watch()
        self._waiting.clear()

    def changes(
        self, find: Callable[[bytes], Place | None], pool: Iterable[BlockEvent]
    ) -> Iterator[BlockEvent]:
        """What readers are told of the tier.

        Args:
            find: Where a block's tokens are.
            pool: What they are told of the pool.
        """
        gone, came = self._level.index.take_changes()
        told = [key for key in gone if self._forget(key)]
        if told:
            yield BlockRemoved(tuple(told), medium=self._level.medium)
        yield from joined(self._placed((*self._recognised(pool), *came), find))

    def _forget(self, key: bytes) -> bool:
        """Whether readers were told of a block that is gone."""
        if key in self._waiting:
            del self._waiting[key]
            return False
        self._held.pop(key, None)
        return True

    def _recognised(self, pool: Iterable[BlockEvent]) -> Iterator[tuple[bytes, bytes | None]]:
        """Blocks that waited for their tokens and have come to the pool."""
        if not self._waiting:
            return
        for event in pool:
            if isinstance(event, BlockStored) and not self._waiting.keys().isdisjoint(event.keys):
                for key in event.keys:
                    if key in self._waiting:
                        yield key, self._waiting.pop(key)

    def _placed(
        self,
        came: Iterable[tuple[bytes, bytes | None]],
        find: Callable[[bytes], Place | None],
    ) -> Iterator[BlockEvent]:
        """Blocks that came: those in a row, of one run, as one event."""
        run, begin, end = self._unknown, 0, 0
        for key, parent in came:
            place = find(key)
            if place is None and self._needs_tokens:
                self._waiting[key] = parent
                continue
            if place is None:
                place = replace(self._unknown, keys=(key,), parent_key=parent), 0
            self._held[key] = place
            if place[0] is run and place[1] == end:
                end += 1
                continue
            if end > begin:
                yield self._event(run, begin, end)
            run, begin, end = *place, place[1] + 1
        if end > begin:
            yield self._event(run, begin, end)

    def _event(self, run: BlockStored, begin: int, end: int) -> BlockStored:
        return replace(part(run, begin, end), medium=self._level.medium)
