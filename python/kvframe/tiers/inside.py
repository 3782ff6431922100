"""Inspection of tiers: their counters, checks of their pages, a recount of their state."""

from __future__ import annotations

import time

import numpy as np

from kvframe.config.tiers import MOVED
from kvframe.errors import TierError
from kvframe.tiers.base import Level, Levels
from kvframe.tiers.ending import LIMIT_S, check_limit
from kvframe.tiers.object_keys import Key
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.tier_index import Gone, keys_of

AT_ONCE = 64
"""Pages that `Inside.verify` asks a store for in one call."""


class Inside(Levels):
    """What the tiers of a manager tell of themselves."""

    def stats(self) -> dict[str, dict[str, int]]:
        """Counters: of the directions under ``moved``, and of each tier by its name."""
        told = {MOVED: dict(self.counters)}
        for level in self.levels:
            free, cached, owned, moving = level.index.counts()
            more = {"free": free, "cached": cached, "owned": owned, "moving": moving}
            told[level.name] = {**level.index.stats(), **more, "corrupt": level.corrupt}
            if isinstance(level, StoreTier):
                told[level.name] |= level.stats()
        return told

    def verify(self, limit: float = LIMIT_S) -> list[tuple[str, Key]]:
        """Read every page of every tier back and compare checksums; blocks until that is done.

        Args:
            limit: Seconds that a store may take for 64 pages.

        Returns:
            Pages that were wrong or gone, which are forgotten: (name of the tier, key).

        Raises:
            TierError: A store cannot be asked, or does not answer. What it has stays.
        """
        check_limit(limit)
        self._check_open()
        told: list[tuple[str, Key]] = []
        for level in self.levels:
            wrong = self._wrong(level, limit)
            told += [(level.name, key) for key, _ in wrong]
            self._left(level, level.index.forget(keys_of(wrong)))
        return told

    def check_integrity(self) -> None:
        """Recount the index of the manager and of every tier.

        Raises:
            IntegrityError: Something disagrees: a defect of kvframe.
        """
        self.kv.check_integrity()
        for level in self.levels:
            level.index.check_integrity()

    def _wrong(self, level: Level, limit: float) -> Gone:
        """Pages of a tier that are not as they came in; a store is asked by its own worker."""
        pages = level.index.stored()
        if not isinstance(level, StoreTier):
            slots = np.array([place for _, place in pages], np.uint32)
            return [page for at, page in enumerate(pages) if not level.check(slots[at : at + 1])]
        wrong: Gone = []
        for at in range(0, len(pages), AT_ONCE):
            wrong += self._ask_wrong(level, pages[at : at + AT_ONCE], limit)
        return wrong

    def _ask_wrong(self, level: StoreTier, pages: Gone, limit: float) -> Gone:
        answers: list[Gone | Exception] = []
        level.worker.submit(lambda: level.wrong(pages), answers.append)
        end = time.monotonic() + limit
        while not answers:
            level.worker.poll(0.01)
            if not answers and time.monotonic() >= end:
                raise TierError(f"{level.name}: no answer in {limit} s")
        (answer,) = answers
        level.heard(answer, self._clock())
        if isinstance(answer, Exception):
            raise TierError(f"{level.name}: {answer}") from answer
        return answer
