"""Threads of a test whose failures are the test's: one that raises or hangs fails it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Work = Callable[[], object]


class Worker:
    """One thread that runs ``work`` once, and what came of it.

    Attributes:
        answer: What ``work`` returned.
        failure: What it raised.
    """

    def __init__(self, work: Work) -> None:
        self.answer: Any = None
        self.failure: BaseException | None = None
        self._work = work
        # A daemon, so that a worker that hangs fails its test and does not hold up the run's end.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.answer = self._work()
        except BaseException as failure:  # raised again by the test's own thread
            self.failure = failure

    def start(self) -> None:
        self._thread.start()

    def end(self, seconds: float) -> Any:
        """Wait for the end; the answer.

        Raises:
            BaseException: What the work raised.
            TimeoutError: It did not end in time.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._work!r} did not end in {seconds} s")
        if self.failure is not None:
            raise self.failure
        return self.answer


def together(*works: Work, seconds: float = 60) -> list[Any]:
    """Run each of ``works`` in a thread of its own; their answers, once all have ended.

    Raises:
        BaseException: What the first of them that failed raised.
        TimeoutError: One did not end within ``seconds``.
    """
    with beside(*works, seconds=seconds) as workers:
        pass
    return [worker.answer for worker in workers]


@contextmanager
def beside(
    *works: Work, stop: Callable[[], object] | None = None, seconds: float = 60
) -> Iterator[list[Worker]]:
    """Run each of ``works`` in a thread beside the block, and wait for them at its end.

    Args:
        works: What to run.
        stop: Called at the end of the block, however it ends: tells workers that go on until then.
        seconds: How long to wait for each.

    Raises:
        BaseException: What the first worker that failed raised, unless the block itself raised.
        TimeoutError: One did not end in time.
    """
    workers = [Worker(work) for work in works]
    for worker in workers:
        worker.start()
    try:
        yield workers
    except BaseException:
        if stop is not None:
            stop()
        for worker in workers:
            worker._thread.join(seconds)
        raise
    if stop is not None:
        stop()
    for worker in workers:
        worker.end(seconds)
