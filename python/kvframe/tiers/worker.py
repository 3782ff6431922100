"""What does the blocking work of tiers: a thread, or in tests the caller itself."""

from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Callable
from random import Random
from typing import ClassVar, Protocol, TypeVar

from kvframe.errors import TierError

T = TypeVar("T")
Job = Callable[[], object]
EXIT_S = 2.0
"""Seconds that the process's end waits for the jobs under way, all together."""

Then = Callable[[object], None]
"""What is done with a job's result, or with the exception that it raised."""


class Worker(Protocol):
    """Runs jobs in their order; what follows a job runs in the thread that calls `poll`."""

    def submit(self, job: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Queue a job."""

    def poll(self, timeout: float = 0) -> int:
        """Do what follows the jobs that have ended, waiting so long (seconds) for the first.

        Returns:
            How many there were.
        """

    @property
    def busy(self) -> int:
        """Jobs that have not been followed up."""

    def close(self) -> None:
        """Take no more jobs; those queued are done first."""

    def leave(self) -> None:
        """Take no more jobs, and wait for none: the one under way may never end."""


class Inline:
    """Jobs run when they are polled for, in order or, with ``dice``, in a random one.

    The same calls give the same result on every machine. A job that draws its turn late is as one
    that is slow.
    """

    def __init__(self, dice: Random | None = None, *, at_once: int | None = None) -> None:
        self._dice, self._at_once = dice, at_once
        self._jobs: list[tuple[Job, Then]] = []

    def submit(self, job: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self._jobs.append((job, then))  # type: ignore[arg-type]

    def poll(self, timeout: float = 0) -> int:
        ended = 0
        most = len(self._jobs) if self._at_once is None else self._at_once
        while self._jobs and ended < most:
            turn = self._dice.randrange(len(self._jobs)) if self._dice else 0
            job, then = self._jobs.pop(turn)
            outcome = _outcome(job)
            then(outcome)
            ended += 1
            if isinstance(outcome, Exception) and isinstance(outcome.__cause__, KeyboardInterrupt):
                raise outcome.__cause__  # it was meant for the caller, whose thread this is
        return ended

    @property
    def busy(self) -> int:
        return len(self._jobs)

    def close(self) -> None:
        while self.poll():
            pass

    def leave(self) -> None:
        self._jobs.clear()


class Thread:
    """One thread of its own, named; it ends with the process at the latest.

    At the process's end, the job under way is waited for a little, and those queued are dropped.
    """

    _alive: ClassVar[weakref.WeakSet[Thread]] = weakref.WeakSet()

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Job, Then] | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[Then, object]] = queue.SimpleQueue()
        self._open = 0
        self._left = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._alive.add(self)

    def submit(self, job: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        self._open += 1
        self._jobs.put((job, then))  # type: ignore[arg-type]

    def poll(self, timeout: float = 0) -> int:
        ended = 0
        while self._open:
            wait = timeout if not ended else 0
            try:
                then, outcome = self._ended.get(block=wait > 0, timeout=wait or None)
            except queue.Empty:
                break
            self._open -= 1
            ended += 1
            then(outcome)
        return ended

    @property
    def busy(self) -> int:
        return self._open

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
        self.poll()

    def leave(self) -> None:
        self._left = True
        self._jobs.put(None)

    def _run(self) -> None:
        while (queued := self._jobs.get()) is not None and not self._left:
            job, then = queued
            self._ended.put((then, _outcome(job)))

    @classmethod
    def end_all(cls) -> None:
        """Called where the process ends: none must be at work while the interpreter goes."""
        threads = list(cls._alive)
        for one in threads:
            one.leave()
        until = time.monotonic() + EXIT_S
        for one in threads:
            one._thread.join(max(until - time.monotonic(), 0))


atexit.register(Thread.end_all)


def _outcome(job: Job) -> object:
    try:
        return job()
    except Exception as error:
        return error
    except BaseException as error:  # a cancelled task, say: the worker and its callers go on
        told = TierError(f"{type(error).__name__}: {error}")
        told.__cause__ = error
        return told
