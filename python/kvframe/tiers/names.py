"""New names for pages of a tenant, salt or adapter that was forgotten: others may hold the old."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.results import Origin
from kvframe.tiers.tier_index import Keys

REMEMBERED = 4096
"""Salts and adapters whose names are kept at hand."""


class Scope(NamedTuple):
    """What a reset forgets: all that each of these applies to; None applies to everything."""

    cache_salt: str | None
    lora_name: str | None
    session: int | None = None
    tenant: str | None = None

    def covers(self, origin: Origin) -> bool:
        """Whether its tenant, salt and adapter are among those that are forgotten."""
        asked = self.tenant, self.cache_salt, self.lora_name
        had = origin.tenant, origin.cache_salt, origin.lora_name
        return all(one in (None, name) for one, name in zip(asked, had, strict=True))


class Names:
    """What pages are called since their salt or adapter was forgotten.

    A store that others write to keeps what they wrote, under names made of the same keys. From then
    on this engine gives its own pages new names, from numbers that no other engine draws: it
    neither finds the old pages nor takes them for its own.
    """

    def __init__(self) -> None:
        self._drawn: dict[Scope, npt.NDArray[np.uint64]] = {}
        self._masks: dict[tuple[str, str, str], npt.NDArray[np.uint64]] = {}

    def renew(self, scope: Scope) -> None:
        """Give new, unused names to the pages that a scope covers."""
        self._drawn[scope] = np.frombuffer(os.urandom(16), np.uint64)
        self._masks.clear()

    def of(self, keys: Keys, origin: Origin) -> Keys:
        """What pages of these keys are called now."""
        if not self._drawn:
            return keys
        names = origin.tenant, origin.cache_salt, origin.lora_name
        mask = self._masks.get(names)
        if mask is None:
            mask = np.zeros(2, np.uint64)
            for scope, drawn in self._drawn.items():
                if scope.covers(origin):
                    mask = mask ^ drawn
            if len(self._masks) >= REMEMBERED:
                self._masks.clear()
            self._masks[names] = mask
        return keys ^ mask
