"""Messages about a store for its operator: it fails or is full, and it has recovered."""

from __future__ import annotations

import logging

QUIET_MS = 600_000
"""Milliseconds in which a fault that comes and goes is reported once."""

_log = logging.getLogger("kvframe.tiers")


class Trouble:
    """One fault of a store, logged as it begins and as it ends."""

    def __init__(self) -> None:
        self._told: int | None = None
        self._open = False

    def begins(self, message: str, now: int) -> None:
        """The fault is there, maybe since long ago. ``now``: milliseconds of any clock."""
        if self._open or (self._told is not None and now - self._told < QUIET_MS):
            return
        self._open, self._told = True, now
        _log.warning(message)

    def ends(self, message: str) -> None:
        """The fault is not there, and maybe never was."""
        if self._open:
            self._open = False
            _log.warning(message)


BACK_OFF_MS = (100, 200, 400, 800, 1600, 3200)
"""How long a store is left alone, by how often it has failed in a row."""


class Pause:
    """One kind of call that is not made for a while after it failed, longer each time in a row.

    Attributes:
        in_a_row: Failures since it last worked.
    """

    def __init__(self) -> None:
        self.in_a_row, self._until = 0, 0

    def failed(self, now: int) -> None:
        """It failed. ``now``: milliseconds of any clock."""
        self._until = now + BACK_OFF_MS[min(self.in_a_row, len(BACK_OFF_MS) - 1)]
        self.in_a_row += 1

    def worked(self) -> int:
        """It worked; how often it had failed before, in a row."""
        failures, self.in_a_row, self._until = self.in_a_row, 0, 0
        return failures

    def is_over(self, now: int) -> bool:
        """Whether it may be tried now."""
        return now >= self._until
