"""New names for pages of a salt or adapter that was forgotten: others may still hold the old."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvframe.tiers.tier_index import Keys

REMEMBERED = 4096
"""Salts and adapters whose names are kept at hand."""

Covers = Callable[[bytes, bytes], bool]
"""Whether a salt and an adapter are among those that are forgotten."""


class Names:
    """What pages are called since their salt or adapter was forgotten.

    A store that others write to keeps what they wrote, under names made of the same keys. From then
    on this engine gives its own pages new names, from numbers that no other engine draws: it
    neither finds the old pages nor takes them for its own.
    """

    def __init__(self) -> None:
        self._drawn: dict[tuple[str | None, str | None], tuple[Covers, npt.NDArray[np.uint64]]] = {}
        self._masks: dict[tuple[bytes, bytes], npt.NDArray[np.uint64]] = {}

    def renew(self, salt: str | None, adapter: str | None, covers: Covers) -> None:
        """Give new, unused names to the pages for which ``covers`` is true."""
        drawn = np.frombuffer(os.urandom(16), np.uint64)
        self._drawn[salt, adapter] = covers, drawn
        self._masks.clear()

    def of(self, keys: Keys, salt: bytes, adapter: bytes) -> Keys:
        """What pages of these keys are called now."""
        if not self._drawn:
            return keys
        mask = self._masks.get((salt, adapter))
        if mask is None:
            mask = np.zeros(2, np.uint64)
            for covers, drawn in self._drawn.values():
                if covers(salt, adapter):
                    mask = mask ^ drawn
            if len(self._masks) >= REMEMBERED:
                self._masks.clear()
            self._masks[salt, adapter] = mask
        return keys ^ mask
