"""``kv.log``: the ordered log of what a manager did."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.errors import UsageError
from kvframe.results import Changes, Remap
from kvframe.stats.log import EventLog


class Log:
    """``kv.log``: the ordered log (``cache.event_log``), and changes to other sequences."""

    def __init__(self, core: Core, block_size: int) -> None:
        self._core, self._block_size = core, block_size
        self._is_on: bool = core.options()["event_log"]

    def take_events(self) -> dict[str, npt.NDArray[Any]]:
        """The ordered log since it was taken last, as arrays.

        The token ids and requests that belong to it are dropped; `take` keeps them.

        Raises:
            UsageError: The log is off (``cache.event_log``).
        """
        self._check_on()
        return self._core.take_events()

    def take(self) -> EventLog:
        """The ordered log since it was taken last, with token ids and requests.

        Raises:
            UsageError: The log is off (``cache.event_log``).
        """
        self._check_on()
        events, ids, requests = self._core.take_log()
        return EventLog(events, ids, dict(requests), self._block_size)

    def take_changes(self) -> Changes:
        """What calls have changed besides their own sequence, since this was called last.

        `KVCacheManager.step` returns the same as ``rewound`` and ``remapped``.
        """
        rewound, remapped = self._core.take_changes()
        return Changes(rewound, [Remap(*entry) for entry in remapped])

    def _check_on(self) -> None:
        if not self._is_on:
            raise UsageError("cache.event_log = false: no log is kept: set it to true")

    def __repr__(self) -> str:
        return f"Log({'on' if self._is_on else 'off'})"
