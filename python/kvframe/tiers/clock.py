"""The clock of an engine, for timeouts: what it says is checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError

LATEST: Final = 2**63 - 1
"""Milliseconds: a deadline beyond it would be none."""


def clock_of(clock: Callable[[], int] | None) -> Callable[[], int]:
    """A clock that returns milliseconds: the given one, checked, or else the system's.

    Raises:
        UsageError: It cannot be called; what is returned raises it if it says no such number.
    """
    if clock is None:
        return lambda: time.monotonic_ns() // 1_000_000
    if not callable(clock):
        raise UsageError(f"clock = {shown(clock)}: must be callable, or None")

    def told() -> int:
        now = clock()
        if not is_int(now) or isinstance(now, bool) or not 0 <= now <= LATEST:
            limit = f"must be milliseconds, an integer between 0 and {LATEST}"
            raise UsageError(f"clock() = {shown(now)}: {limit}")
        return int(now)

    return told
