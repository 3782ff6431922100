"""What an operator is told of a store: that it fails, or is full, and that it is well again."""

from __future__ import annotations

import logging

QUIET_MS = 600_000
"""A store that comes and goes is told of once in this time."""

_log = logging.getLogger("kvframe.tiers")


class Trouble:
    """One thing that can be wrong with a store, told in the log as it begins and as it ends."""

    def __init__(self) -> None:
        self._told: int | None = None
        self._open = False

    def begins(self, message: str, now: int) -> None:
        """It is there, maybe since long ago. ``now``: milliseconds of any clock."""
        if self._open or (self._told is not None and now - self._told < QUIET_MS):
            return
        self._open, self._told = True, now
        _log.warning(message)

    def ends(self, message: str) -> None:
        """It is not there, maybe never was."""
        if self._open:
            self._open = False
            _log.warning(message)
