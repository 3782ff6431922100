"""The event streams of many workers into a `RouterIndex`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.router import RouterIndex
from kvframe.wire.apply import apply_batch
from kvframe.wire.decode import decode
from kvframe.wire.sockets import EVENTS, Curve, of_rank, zmq
from kvframe.wire.stream import Item, Message, Stream

IDLE_S = 1.0
"""Seconds without a message after which a publisher is asked whether one was lost."""

LONGEST_IDLE_S = 30.0
"""The same, for one that does not answer: the time doubles up to here."""

Watcher = Callable[[int, int, bytes], object]
"""Called with the worker, the number and the payload of each batch, in order."""

_log = logging.getLogger("kvframe.wire")


class SubscriberCounts(NamedTuple):
    """What became of batches so far.

    Attributes:
        applied: Applied, or as much of them as made sense.
        replayed: Among these, brought by a replay.
        missed: Never seen; after a reset, all before the oldest one that is still to be had.
        refused: That made no sense, or of which an event did not.
        resets: How often a rank was forgotten: its publisher has started again, or batches were
            lost for good.
    """

    applied: int
    replayed: int
    missed: int
    refused: int
    resets: int


@dataclass
class _Source:
    worker: int
    rank: int
    stream: Stream
    ranks: set[int] = field(default_factory=set)


class Subscriber:
    """Keeps an index up to date with the events that the publishers of its workers send.

    Nothing runs by itself: call `poll` in a loop, or `run` in a thread. A gap is filled by the
    publisher's replay. A publisher that has started again, or whose lost batches cannot be had,
    has its rank cleared, so that the index does not name blocks that are gone. A publisher without
    a replay keeps what it told, gaps and all; they count as ``missed``.

    Args:
        index: The index; it may be asked from any thread meanwhile.
        curve: This reader's keys (`Curve.of_reader`).
    """

    def __init__(self, index: RouterIndex, *, curve: Curve | None = None) -> None:
        self.index = index
        self._curve = curve
        self._context: zmq.Context[Any] = zmq.Context()
        self._poller = zmq.Poller()
        self._sources: dict[tuple[int, int], _Source] = {}
        self._lock, self._stopped = threading.RLock(), False
        self._applied = self._refused = self._resets = 0
        self._ended = (0, 0)
        self._watcher: Watcher | None = None

    def add(
        self,
        worker: int,
        endpoint: str = EVENTS,
        replay: str | None = None,
        *,
        rank: int = 0,
        topic: str = "",
    ) -> None:
        """Read a worker's publisher; each data-parallel rank has its own.

        Args:
            worker: Its number, which becomes known to the index.
            endpoint: Of rank 0, as the engine is configured; rank r adds r to the port.
            replay: The same, of its replay; None if it has none.
            rank: The data-parallel rank.
            topic: Read only messages whose first frame begins so.

        Raises:
            UsageError: The rank is read already, or an address is none.
        """
        with self._lock:
            if (worker, rank) in self._sources:
                raise UsageError(f"worker = {worker}: rank {rank} is read already")
            again = None if replay is None else of_rank(replay, rank)
            stream = Stream(self._context, of_rank(endpoint, rank), again, topic, self._curve)
            self.index.add_worker(worker)
            self._sources[worker, rank] = _Source(worker, rank, stream, {rank})
            self._poller.register(stream.socket, zmq.POLLIN)

    def remove(self, worker: int) -> None:
        """Read a worker no more, and forget what it held.

        Raises:
            UsageError: It is not read.
        """
        with self._lock:
            gone = [key for key in self._sources if key[0] == worker]
            if not gone:
                raise UsageError(f"worker = {shown(worker)}: is not read")
            for key in gone:
                stream = self._sources.pop(key).stream
                self._poller.unregister(stream.socket)
                stream.close()
                missed, replayed = self._ended
                self._ended = missed + stream.missed, replayed + stream.replayed
            self.index.remove_worker(worker)

    def watch(self, watcher: Watcher) -> None:
        """Also call ``watcher`` with each batch, before it is applied."""
        self._watcher = watcher

    def poll(self, timeout: float = 0.1) -> int:
        """Apply what has arrived, after at most so many seconds; returns how many batches."""
        with self._lock:
            before = self._applied
            if self._poller.poll(int(timeout * 1000)):
                for source in list(self._sources.values()):
                    self._take(source, source.stream.read())
            now = time.monotonic()
            for source in list(self._sources.values()):
                idle = min(IDLE_S * 2**source.stream.failures, LONGEST_IDLE_S)
                if now - source.stream.heard > idle:
                    self._take(source, source.stream.check())
            return self._applied - before

    def sync(self) -> bool:
        """Apply all that the publishers have published up to now, lost or not.

        Returns:
            False if one has no replay, or did not answer.
        """
        with self._lock:
            known = True
            for source in self._sources.values():
                self._take(source, source.stream.read())
                self._take(source, source.stream.check())
                known &= source.stream.has_replay and not source.stream.failures
            return known

    def run(self) -> None:
        """`poll` until `close` is called from another thread."""
        while not self._stopped:
            self.poll()

    def counts(self) -> SubscriberCounts:
        """What became of batches so far."""
        streams = [source.stream for source in self._sources.values()]
        missed = self._ended[0] + sum(stream.missed for stream in streams)
        replayed = self._ended[1] + sum(stream.replayed for stream in streams)
        return SubscriberCounts(self._applied, replayed, missed, self._refused, self._resets)

    def close(self) -> None:
        """End `run`, and close the sockets; the index keeps what it has."""
        self._stopped = True
        with self._lock:
            for source in self._sources.values():
                source.stream.close()
            self._sources.clear()
            self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False

    def __repr__(self) -> str:
        return f"Subscriber({len(self._sources)} publishers, {self._applied} batches)"

    def _take(self, source: _Source, items: Iterable[Item]) -> None:
        for item in items:
            if isinstance(item, Message):
                self._apply(source, item)
                continue
            self._resets += 1
            _log.warning("worker %d, rank %d: %s", source.worker, source.rank, item.reason)
            for rank in source.ranks:
                self.index.cleared(source.worker, rank=rank)

    def _apply(self, source: _Source, message: Message) -> None:
        self._applied += 1
        if self._watcher is not None:
            self._watcher(source.worker, message.number, message.payload)
        try:
            batch = decode(message.payload, rank=source.rank)
            source.ranks.add(batch.rank)
            apply_batch(self.index, source.worker, batch)
        except UsageError as error:
            self._refused += 1
            level = logging.WARNING if self._refused == 1 else logging.DEBUG
            _log.log(level, "worker %d: batch %d: %s", source.worker, message.number, error)
