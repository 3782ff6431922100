"""One publisher's batches in order: gaps are filled by its replay, and its restarts noticed.

Numbers alone do not show every restart: a publisher that has started again may have passed the
number that its reader had reached. So a replay is asked from the last batch that was applied, and
goes on only if that batch is still the same.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from kvframe.wire.publisher import END
from kvframe.wire.sockets import Curve, connected, zmq

QUEUE = 1_000
"""Batches that wait to be read; more are lost, and come with the replay."""

ANSWER_S = 2.0
"""Seconds between two batches of a replay, after which it has failed."""

TRIES = 3
"""Replays that may fail before a gap stays open."""


class Message(NamedTuple):
    """A batch, in order."""

    number: int
    payload: bytes


class Reset(NamedTuple):
    """The batches before this are void; the reason says why."""

    reason: str


Item = Message | Reset


class Stream:
    """The batches of one publisher.

    Args:
        context: Makes the sockets.
        endpoint: Where it publishes.
        replay: Where it sends lost batches again; None if it does not.
        topic: Read only messages whose first frame begins so.
        curve: This reader's keys.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        endpoint: str,
        replay: str | None,
        topic: str = "",
        curve: Curve | None = None,
    ) -> None:
        self._context, self._replay, self._curve = context, replay, curve
        socket = context.socket(zmq.SUB)
        socket.rcvhwm = QUEUE
        socket.subscribe(topic.encode())
        self.socket = connected(socket, endpoint, curve)
        self.endpoint = endpoint
        self.heard = time.monotonic()
        self.missed = self.replayed = self.malformed = self.failures = 0
        self._forget()

    @property
    def has_replay(self) -> bool:
        """Whether lost batches can be had."""
        return self._replay is not None

    def read(self) -> Iterator[Item]:
        """Everything that has arrived."""
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.heard = time.monotonic()
            if len(frames) != 3 or len(frames[1]) != 8:
                self.malformed += 1
                continue
            yield from self._live(int.from_bytes(frames[1], "big"), frames[2])

    def check(self) -> Iterator[Item]:
        """Ask the replay for what has not arrived: lost last batches, or a restart in silence."""
        self.heard = time.monotonic()
        if self.has_replay:
            yield from self._catch_up()

    def close(self) -> None:
        """Close the sockets."""
        self.socket.close()

    # --- order ----------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Return to the state before any batch was applied."""
        self._last, self._mark = -1, b""
        self._arrived = -1
        # Batches that a replay brought and that may still arrive, by their marks.
        self._early: dict[int, bytes] = {}

    def _live(self, number: int, payload: bytes) -> Iterator[Item]:
        mark = _mark(payload)
        if number <= self._arrived or self._early.pop(number, mark) != mark:
            yield self._reset(f"the publisher has started again: batch {number} came anew")
        if number > self._last + 1:
            yield from self._fill(number)
        self._arrived = number
        if number > self._last:
            yield from self._next(number, payload)

    def _fill(self, number: int) -> Iterator[Item]:
        """Bring the batches before one that arrived, or give them up."""
        for _ in range(TRIES if self.has_replay else 0):
            answered = yield from self._catch_up()
            if answered:
                break
        self._early = {one: mark for one, mark in self._early.items() if one > number}
        if number > self._last + 1:
            yield from self._lose(number)
            self._last = number - 1

    def _lose(self, number: int) -> Iterator[Item]:
        """Count the batches before ``number`` as lost.

        With a replay, this resets the stream, if it has applied a batch. Without one, what earlier
        batches said stays.
        """
        self.missed += number - self._last - 1
        if self.has_replay and self._last >= 0:
            yield self._reset(f"batches before {number} are lost")

    def _catch_up(self) -> Generator[Item, None, bool]:
        """Apply a replay; returns whether it came to its end."""
        first, mark = self._last, self._mark
        is_known = first < 0
        for number, payload in self._answers(max(first, 0)):
            if not is_known:
                is_known = number == first and _mark(payload) == mark
                if is_known:
                    continue
                yield self._reset(f"the publisher has another batch {first}, or none")
                return (yield from self._catch_up())
            if number < 0:
                self.failures = 0
                return True
            if number <= self._last:
                continue
            if number > self._last + 1:
                yield from self._lose(number)
            self.replayed += 1
            if number > self._arrived:
                self._early[number] = _mark(payload)
            yield from self._next(number, payload)
        self.failures += 1
        return False

    def _answers(self, first: int) -> Iterator[tuple[int, bytes]]:
        """A replay: numbers and payloads, and -1 at its end if it came."""
        # A socket of its own each time: answers to an earlier request do not mix with these.
        with connected(self._context.socket(zmq.DEALER), str(self._replay), self._curve) as asker:
            asker.rcvtimeo = int(ANSWER_S * 1000)
            asker.send_multipart([b"", first.to_bytes(8, "big")])
            while True:
                try:
                    frames = asker.recv_multipart()
                except zmq.Again:
                    return
                if len(frames) < 3 or len(frames[-2]) != 8:
                    self.malformed += 1
                elif frames[-2] == END:
                    yield -1, b""
                    return
                else:
                    yield int.from_bytes(frames[-2], "big"), frames[-1]

    def _next(self, number: int, payload: bytes) -> Iterator[Item]:
        self._last, self._mark = number, _mark(payload)
        yield Message(number, payload)

    def _reset(self, reason: str) -> Reset:
        self._forget()
        return Reset(reason)


def _mark(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=8).digest()
