"""Every page of every tier read back and compared with its checksum."""

from __future__ import annotations

import time

import numpy as np

from kvframe.errors import TierError
from kvframe.tiers.base import Level, Levels
from kvframe.tiers.object_keys import Key
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.tier_index import Gone, keys_of

AT_ONCE = 64
"""Pages that a store is asked for in one call."""


def forget_wrong(levels: Levels, limit: float) -> list[tuple[str, Key]]:
    """Forget the pages that are wrong or gone: (name of the tier, key); see `Tiers.verify`."""
    found: list[tuple[str, Key]] = []
    for level in levels.all:
        wrong = _wrong(levels, level, limit)
        found += [(level.name, key) for key, _ in wrong]
        levels.left(level, level.index.forget(keys_of(wrong)))
    return found


def _wrong(levels: Levels, level: Level, limit: float) -> Gone:
    """Pages of a tier that are not as they came in; a store is asked by its own worker."""
    pages = level.index.stored()
    if not isinstance(level, StoreTier):
        slots = np.array([place for _, place in pages], np.uint32)
        return [page for at, page in enumerate(pages) if not level.check(slots[at : at + 1])]
    wrong: Gone = []
    for at in range(0, len(pages), AT_ONCE):
        wrong += _ask(levels, level, pages[at : at + AT_ONCE], limit)
    return wrong


def _ask(levels: Levels, level: StoreTier, pages: Gone, limit: float) -> Gone:
    answers: list[Gone | Exception] = []
    level.worker.submit(lambda: level.wrong(pages), answers.append)
    end = time.monotonic() + limit
    while not answers:
        level.worker.poll(0.01)
        if not answers and time.monotonic() >= end:
            raise TierError(f"{level.name}: no answer in {limit} s")
    (answer,) = answers
    level.heard(answer, levels.clock())
    if isinstance(answer, Exception):
        raise TierError(f"{level.name}: {answer}") from answer
    return answer
