"""Waiting for what is in flight, and the end of tiers: both bounded, whatever a store does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvframe.arguments import shown
from kvframe.errors import TierError, UsageError
from kvframe.tiers.base import Levels
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.worker import Inline, Worker

LIMIT_S = 10.0
"""Seconds without any progress after which a store counts as stalled."""


class PollResult(NamedTuple):
    """Loads that have ended.

    Attributes:
        rewound: Sequences whose load brought less than it promised: they are cut to what is good;
            `KVCacheManager.extend` gives the slots back.
        landed: Sequences whose load has arrived, or part of it.
    """

    rewound: list[int]
    landed: list[int]


class _StalledError(TierError):
    """Nothing has ended for too long; the message says what was left."""


class Ending(Levels):
    """How to wait for stores that may never answer."""

    workers: Sequence[Worker]
    _rewound: list[int]
    _landed: list[int]
    _ended: int
    """Calls and copies that have ended so far."""

    def poll(self, timeout: float = 0) -> PollResult:
        """Of `Tiers`."""
        raise NotImplementedError

    def drain(self, limit: float = LIMIT_S) -> PollResult:
        """Poll until nothing is in flight.

        What a store refuses, or what waits until it answers again, is not in flight: it is tried
        again by later polls.

        Args:
            limit: Seconds that may pass without anything ending.

        Raises:
            TierError: They have passed; the message says what is still in flight. It stays so, and
                the next `poll` reports what has ended.
            UsageError: ``limit`` is no number above 0.
        """
        check_limit(limit)
        ended = PollResult([], [])
        before, since = self._ended, time.monotonic()
        while True:
            polled = self.poll(0.01)
            ended.rewound.extend(polled.rewound)
            ended.landed.extend(polled.landed)
            busy = sum(worker.busy for worker in self.workers) + self.moves.busy
            if not (busy or polled.rewound or polled.landed):
                return ended
            if self._ended != before:
                before, since = self._ended, time.monotonic()
            if time.monotonic() - since >= limit:
                self._rewound = ended.rewound + self._rewound
                self._landed = ended.landed + self._landed
                raise _StalledError(f"nothing has ended for {limit} s: {self._in_flight()}")

    def close(self, limit: float = LIMIT_S) -> None:
        """Finish what is in flight, and close workers and stores. Closing again does nothing.

        A store that does not answer is given up: its calls under way are abandoned, what they were
        to write or read is lost, and it is not closed.

        Args:
            limit: Seconds that may pass without anything ending; so long is also waited, in all,
                for stores to close.

        Raises:
            TierError: A store cannot be closed, or does not answer; all others are closed. The
                message says what was left.
            UsageError: As for `drain`.
        """
        check_limit(limit)
        if self._closed:
            return
        failed: list[str] = []
        stalled = False
        try:
            now = self._clock()
            for below in self.below:
                below.tend(now, last=True)
            self.drain(limit)
        except _StalledError as error:
            stalled = True
            failed.append(str(error))
        except BaseException:
            self._closed = True
            self._shut(limit)
            raise
        self._closed = True
        failed += self._shut(limit, stalled=stalled)
        if failed:
            raise TierError("; ".join(failed))

    def _shut(self, limit: float, *, stalled: bool = False) -> list[str]:
        """Close every store in its worker, then the workers; what failed.

        ``stalled``: what is under way has been waited for in vain.
        """
        errors: dict[str, str] = {}
        stores = dict(zip(map(id, self.workers[1:]), self.below, strict=False))
        waiting = [worker for worker in self.workers[1:] if not (stalled and worker.busy)]
        for worker in waiting:
            below = stores.get(id(worker))
            if below is not None:
                worker.submit(below.store.close, _noting(below, errors))
        end = time.monotonic() + limit
        while any(worker.busy for worker in waiting) and time.monotonic() < end:
            for worker in waiting:
                worker.poll(0.01)
        for worker in self.workers:
            if not worker.busy:
                worker.close()
                continue
            name = stores[id(worker)].name if id(worker) in stores else self.host.name
            errors[name] = f"{name} does not answer and is not closed: {_calls(worker)} given up"
            worker.leave()
        return [errors[level.name] for level in self.levels if level.name in errors]

    def _in_flight(self) -> str:
        names = [level.name for level in self.levels]
        busy = [(name, worker) for name, worker in zip(names, self.workers, strict=False)]
        told = [f"{_calls(worker)} of {name}" for name, worker in busy if worker.busy]
        if self.moves.busy:
            told.append(f"{self.moves.busy} copies of the pool")
        return ", ".join(told)

    def _work(self, timeout: float) -> None:
        busy = [worker for worker in self.workers if worker.busy]
        for place, worker in enumerate(busy):
            wait = timeout if place == 0 and not isinstance(worker, Inline) else 0
            self._ended += worker.poll(wait)
        self._ended += self.moves.poll()


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
