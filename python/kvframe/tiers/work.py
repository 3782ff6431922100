"""What is in flight in the workers of all tiers, and their end: bounded, whatever a store does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kvframe.arguments import shown
from kvframe.errors import TierError, UsageError
from kvframe.tiers.base import Level
from kvframe.tiers.moves import Moves
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.worker import Inline, Worker

LIMIT_S = 10.0
"""Seconds without any progress after which a store counts as stalled."""


class StalledError(TierError):
    """Nothing has ended for too long; the message says what was left."""


class Work:
    """Calls of stores and copies of the pool that are under way.

    Args:
        workers: One a tier.
        levels: The tiers; as they are opened, the last ones may be missing.
        moves: Copies between the pool and host memory.

    Attributes:
        ended: Calls and copies that have ended so far.
        is_shut: Whether the workers have been closed.
    """

    def __init__(self, workers: Sequence[Worker], levels: Sequence[Level], moves: Moves) -> None:
        self.workers, self._levels, self._moves = workers, levels, moves
        self.ended = 0
        self.is_shut = False

    @property
    def busy(self) -> int:
        """Calls and copies that are under way."""
        return sum(worker.busy for worker in self.workers) + self._moves.busy

    def poll(self, timeout: float) -> None:
        """Do what follows those that have ended, waiting up to ``timeout`` seconds for one."""
        busy = [worker for worker in self.workers if worker.busy]
        for place, worker in enumerate(busy):
            wait = timeout if place == 0 and not isinstance(worker, Inline) else 0
            self.ended += worker.poll(wait)
        self.ended += self._moves.poll()

    def drain(self, poll: Callable[[], bool], limit: float) -> None:
        """Call ``poll`` until nothing is in flight and it says that nothing has arrived.

        Raises:
            StalledError: Nothing has ended for ``limit`` seconds.
        """
        before, since = self.ended, time.monotonic()
        while True:
            arrived = poll()
            if not (self.busy or arrived):
                return
            if self.ended != before:
                before, since = self.ended, time.monotonic()
            if time.monotonic() - since >= limit:
                raise StalledError(f"nothing has ended for {limit} s: {self._in_flight()}")

    def shut(self, limit: float, *, stalled: bool = False) -> list[str]:
        """Close every store in its worker, then the workers; what failed.

        ``stalled``: what is under way has been waited for in vain.
        """
        self.is_shut = True
        errors: dict[str, str] = {}
        pairs = list(zip(self.workers, self._levels, strict=False))
        waiting = [worker for worker in self.workers[1:] if not (stalled and worker.busy)]
        for worker, level in pairs:
            if worker in waiting and isinstance(level, StoreTier):
                worker.submit(level.store.close, _noting(level, errors))
        end = time.monotonic() + limit
        while any(worker.busy for worker in waiting) and time.monotonic() < end:
            for worker in waiting:
                worker.poll(0.01)
        for place, worker in enumerate(self.workers):
            if not worker.busy:
                worker.close()
                continue
            name = self._levels[place].name
            errors[name] = f"{name} does not answer and is not closed: {_calls(worker)} given up"
            worker.leave()
        return [errors[level.name] for level in self._levels if level.name in errors]

    def _in_flight(self) -> str:
        pairs = zip(self._levels, self.workers, strict=False)
        told = [f"{_calls(worker)} of {level.name}" for level, worker in pairs if worker.busy]
        if self._moves.busy:
            told.append(f"{self._moves.busy} copies of the pool")
        return ", ".join(told)


def check_limit(limit: object) -> None:
    """A limit is a number of seconds above 0."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        raise UsageError(f"limit = {shown(limit)}: must be a number of seconds above 0")


def _noting(below: StoreTier, errors: dict[str, str]) -> Callable[[object], None]:
    def closed(outcome: object) -> None:
        if isinstance(outcome, Exception):
            error = f"{type(outcome).__name__}: {outcome}"
            errors[below.name] = f"{below.name} cannot be closed: {error}"

    return closed


def _calls(worker: Worker) -> str:
    return f"{worker.busy} call{'s' if worker.busy != 1 else ''}"
