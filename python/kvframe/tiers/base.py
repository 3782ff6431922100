"""What the tiers of one manager share: its parts, its levels, and what leaves them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from math import ceil, floor
from typing import TypeVar

import numpy as np

from kvframe.errors import CapacityError, HandleError, UsageError
from kvframe.flat import UNKNOWN, Access
from kvframe.manager import KVCacheManager
from kvframe.tiers.gate import COMPUTED, USED
from kvframe.tiers.host import HostTier
from kvframe.tiers.moves import Moves, Pages, Part
from kvframe.tiers.names import Names
from kvframe.tiers.object_keys import Key
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.tier_index import Gone, Keys, Stored, as_tuples, keys_of

T = TypeVar("T")
Level = HostTier | StoreTier

REMEMBERED = 1 << 16
"""Requests known by their sequence, and keys whose uses are counted, for admission policies."""


class Levels:
    """Tiers from the nearest down: host memory first, then stores."""

    kv: KVCacheManager
    parts: list[Part]
    host: HostTier
    below: list[StoreTier]
    moves: Moves
    block_size: int
    counters: Counter[str]
    _uses: OrderedDict[bytes, int]
    _requests: OrderedDict[int, Access]
    _clock: Callable[[], int]
    _verify: bool
    _closed: bool
    _names: Names
    _cleaned: list[dict[Key, bool]]
    """By tier: pages demoted ahead of their eviction, and whether the lower tier has dropped them
    since (do not send those again)."""
    _refuse_loss: Callable[[int], None]
    """A method of `Downward`: code that needs room in host memory calls it first."""
    _least: int
    """The lowest block id that is a page: 1 where block 0 is the null block."""

    @property
    def levels(self) -> list[Level]:
        """Every tier."""
        return [self.host, *self.below]

    def _marked(self, level: Level, share: float) -> int:
        """Pages of a tier that a mark stands for, to the nearest whole one; one at least.

        The last tier has room for all its pages: to make some ahead would lose them for nothing.
        """
        pages = level.index.tier.pages
        if level is self.levels[-1]:
            return pages
        return max(1, floor(share * pages + 0.5))

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the tiers are closed: make new ones")

    def _lives(self, seq: int) -> bool:
        """Whether a sequence has not ended meanwhile."""
        try:
            self.kv.lengths(seq)
        except HandleError:
            return False
        return True

    def _rows(self, seq: int) -> tuple[int, list[Pages]]:
        """Blocks at the front of a sequence that are computed and here, and their pages by part."""
        rows = self.kv.inspect.num_readable_tokens(seq) // self.block_size
        tables = {part.group: self.kv.block_table(seq, part.group) for part in self.parts}
        for table in tables.values():
            gone = np.flatnonzero(table[:rows] < self._least)
            rows = min(rows, len(table), int(gone[0]) if len(gone) else rows)
        return rows, [tables[part.group][:rows] for part in self.parts]

    def _reserve(
        self, level: Level, keys: Keys, use: Access = UNKNOWN
    ) -> tuple[Stored, Keys] | None:
        """Room for as much of a prefix as there is room for; None if there is none now."""
        index = level.index
        try:
            return index.store(keys, use), keys
        except CapacityError:
            free, cached, _, moving = index.counts()
            present = index.present(keys)
            flight = level.config.in_flight - moving if moving else len(keys)
            fits = min(free + cached - present, flight, len(keys) - present - 1)
        if fits < 1:
            return None
        keys = keys[: present + fits]
        try:
            return index.store(keys, use), keys
        except CapacityError:
            return None

    def _evicted(self, level: Level, gone: Gone) -> None:
        """Pages have made room in a tier."""
        place = self.levels.index(level)
        if gone and place < len(self.below):
            self.counters["dropped"] += level.index.take_unbacked()
        if place:
            cleaned = self._cleaned[place - 1]
            cleaned.update((key, True) for key, _ in gone if key in cleaned)
        self._left(level, gone)

    def _used(self, level: Level, keys: Keys) -> None:
        """A request uses pages, so they are no longer about to be evicted."""
        place = self.levels.index(level)
        if place < len(self.below) and self._cleaned[place]:
            for key in as_tuples(keys):
                self._cleaned[place].pop(key, None)

    def _left(self, level: Level, gone: Gone) -> None:
        """Pages are no longer in a tier, for whatever reason."""
        if not gone:
            return
        if isinstance(level, StoreTier):
            level.drop(gone, self._clock())
        else:
            level.left(gone)
        place = self.levels.index(level)
        if place:
            self.levels[place - 1].index.set_backed(keys_of(gone), False)
        if place < len(self.below):
            for key, _ in gone:
                self._cleaned[place].pop(key, None)

    def _note_backed(self, place: int, keys: Keys) -> None:
        """Pages that a tier and the one right below it both have by now."""
        above, below = self.levels[place], self.levels[place + 1]
        both = min(above.index.find(keys), below.index.find(keys))
        above.index.set_backed(keys[:both], True)

    def _settle(self, level: Level, ticket: int, good: list[int], *, keep: bool = False) -> int:
        """A transfer of a tier has ended; pages that are good."""
        ended = level.index.end(ticket, good, keep=keep)
        self._left(level, ended.forgotten)
        return ended.good

    def _all(self, good: int) -> list[int]:
        """The same number for each part."""
        return [good] * len(self.parts)

    def _give_up(self, level: Level, ticket: int) -> None:
        """Cancel a transfer that may have ended, or been given up, before."""
        try:
            gone = level.index.cancel(ticket)
        except HandleError:
            return
        self._left(level, gone)

    def _alike(self, pages: list[Pages], slots: Pages, good: int) -> int:
        """Pages at the front that are in the pool as on the host, where that is looked at."""
        if not self._verify:
            return good
        for part, some, sums in zip(self.parts, pages, self.host.sums(slots), strict=True):
            for page in part.pool.verify(some[:good], sums[:good]):
                good = min(good, int(np.flatnonzero(some == page)[0]))
        return good

    def _deadline(self, level: Level, ticket: int) -> None:
        if level.config.timeout_ms is not None and ticket:
            level.index.set_deadline(ticket, self._clock() + ceil(level.config.timeout_ms))

    def _count_uses(self, keys: Keys, found: int) -> None:
        """A request found this many of its pages, and computes the others."""
        gates = [level.gate for level in self.levels if level.gate.counts_uses]
        for gate in gates:
            gate.seen(keys)
        if not gates:
            return
        for key in keys[:found]:
            name = key.tobytes()
            self._uses[name] = self._uses.pop(name, 1) + 1
        while len(self._uses) > REMEMBERED:
            self._uses.popitem(last=False)

    def _lasting(self, level: Level, keys: Keys) -> Keys:
        """What of a prefix a tier would keep: past its high mark it is evicted, to come again."""
        return keys[: max(level.index.present(keys), self._marked(level, level.config.high))]

    def _wanted(
        self, level: Level, keys: Keys, occasion: int | None = None, use: Access = UNKNOWN
    ) -> Keys:
        """What of a prefix a tier has or lets in; by default, as pages are computed or used."""
        start = level.index.present(keys)
        names = [key.tobytes() for key in keys[start:]] if level.gate.counts_uses else []
        uses = np.zeros(len(keys) - start, np.uint32)
        uses[: len(names)] = [self._uses.get(name, 0) for name in names]
        if occasion is None:
            occasion = USED if len(uses) and uses[0] else COMPUTED
        return keys[: start + level.gate.takes(keys, start, uses, occasion, use)]
