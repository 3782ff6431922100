"""Batches of KV events out: PUB, and a ROUTER that sends lost ones again, as vLLM has them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Self

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.wire.encode import FORMS, encode
from kvframe.wire.events import Event, Form
from kvframe.wire.sockets import EVENTS, REPLAY, Curve, bound, check_private, of_rank, zmq

END = b"\xff" * 8
"""The sequence of the frame that ends a replay."""

BUFFER_BYTES = 256 << 20
"""Most bytes of batches that are kept for replays."""

CLOSE_S = 5.0
"""Seconds that `Publisher.close` waits for what is queued, and for its readers."""


class PublisherCounts(NamedTuple):
    """Batches since the start.

    Attributes:
        published: Numbered.
        dropped: Numbered and given up, because the queue was full: readers see the gap.
        replayed: Sent again.
        refused: Requests for a replay that made no sense.
    """

    published: int
    dropped: int
    replayed: int
    refused: int


class Publisher:
    """Sends batches of events to any number of readers, and never waits for one.

    A batch is numbered, encoded and queued by the caller, and sent by a thread. Of a queue that is
    full the newest batch is given up; it keeps its number, so that readers see a gap. Readers ask
    the replay socket for batches that they have missed.

    Args:
        endpoint: Where readers subscribe; it is bound. Rank r adds r to the port.
        replay: Where they ask for lost batches; None for no replay.
        topic: The first frame. llm-d and AIBrix want ``kv@POD@MODEL``.
        rank: The data-parallel rank whose cache is told of: each has a publisher of its own.
        form: How events are encoded.
        queue: Most batches that wait to be sent.
        buffer: Most batches that are kept for replays, and most `BUFFER_BYTES`.
        curve: Encrypt, and let only certain readers in.
        public: Serve other machines without that.

    Raises:
        UsageError: An address is not of this machine, is none or is in use, or a value is wrong.
    """

    def __init__(
        self,
        endpoint: str = EVENTS,
        replay: str | None = REPLAY,
        *,
        topic: str = "",
        rank: int = 0,
        form: Form = "map",
        queue: int = 100_000,
        buffer: int = 10_000,
        curve: Curve | None = None,
        public: bool = False,
    ) -> None:
        if form not in FORMS:
            raise UsageError(f"form = {shown(form)}: must be map or array")
        for name, value in (("queue", queue), ("buffer", buffer)):
            if not is_int(value) or value < 1:
                raise UsageError(f"{name} = {shown(value)}: must be at least 1")
        addresses = [of_rank(one, rank) for one in (endpoint, replay) if one is not None]
        for address in addresses:
            check_private(address, curve, public)
        self._form, self._rank, self._topic = form, rank, topic.encode()
        self._lock, self._next, self._dropped = threading.Lock(), 0, 0
        self._sent: deque[tuple[int, bytes]] = deque(maxlen=buffer)
        self._bytes = self._handled = self._replayed = self._refused = 0
        self._behind = False
        self._complete = 0
        self._context: zmq.Context[Any] = zmq.Context()
        self._gate = None if curve is None else curve.gate(self._context)
        try:
            self._open(addresses, queue, buffer, curve)
        except BaseException:
            self._end()
            raise
        self._thread = threading.Thread(target=self._run, name="kvframe-publisher", daemon=True)
        self._thread.start()

    def _open(self, addresses: list[str], queue: int, buffer: int, curve: Curve | None) -> None:
        self._pub = self._context.socket(zmq.PUB)
        self._pub.sndhwm = queue
        self._pub.linger = int(CLOSE_S * 1000)
        self._router: zmq.Socket[Any] | None = None
        sockets = [self._pub]
        if len(addresses) > 1:
            self._router = self._context.socket(zmq.ROUTER)
            # A reader that does not read is sent at most one buffer. The rest is dropped for it
            # alone.
            self._router.sndhwm = buffer + 1
            self._router.maxmsgsize = 1024
            self._router.linger = 0
            sockets.append(self._router)
        if curve is not None:
            for socket in sockets:
                curve.serve(socket)
        told = [bound(*pair) for pair in zip(sockets, addresses, strict=True)]
        self.endpoint = told[0]
        self.replay = told[1] if len(told) > 1 else None
        # The queue to the thread is a pair of sockets; each has half of the queue's capacity.
        self._out, self._in = self._context.socket(zmq.PUSH), self._context.socket(zmq.PULL)
        self._out.sndhwm = self._in.rcvhwm = max(1, queue // 2)
        self._out.bind("inproc://queue")
        self._in.connect("inproc://queue")

    def publish(self, events: Sequence[Event], *, complete: bool = False) -> int:
        """Queue a batch; returns its number, also if it is dropped.

        Args:
            events: In order.
            complete: The batches from this one on tell of everything that is cached, so that a
                reader who has missed more than the buffer holds needs no more than these.

        Raises:
            UsageError: The publisher is closed, or an event cannot be encoded.
        """
        with self._lock:
            payload = encode(events, rank=self._rank, form=self._form)
            number = self._next
            try:
                # One frame: each is a call that lets other threads of Python go first.
                self._out.send(number.to_bytes(8, "big") + payload, zmq.NOBLOCK)
            except zmq.Again:
                self._dropped += 1
            except zmq.ZMQError:
                raise UsageError("the publisher is closed") from None
            self._next += 1
            if complete:
                self._complete = number
                self._behind = False
            return number

    @property
    def backlog(self) -> int:
        """Batches that wait to be sent."""
        return self._next - self._dropped - self._handled

    @property
    def is_behind(self) -> bool:
        """Whether a reader has asked for batches that are no longer kept."""
        return self._behind

    def counts(self) -> PublisherCounts:
        """What became of batches so far."""
        return PublisherCounts(self._next, self._dropped, self._replayed, self._refused)

    def close(self) -> None:
        """Send what is queued, and end; a second call does nothing."""
        with self._lock:
            if self._context.closed:
                return
            self._out.sndtimeo = int(CLOSE_S * 1000)
            with suppress(zmq.Again):
                self._out.send(b"")
            self._thread.join(CLOSE_S)
            self._end()

    def _end(self) -> None:
        if self._gate is not None:
            self._gate.stop()
        self._context.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False

    def __repr__(self) -> str:
        return f"Publisher({self.endpoint}: {self._next} batches, {self._dropped} dropped)"

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        poller = zmq.Poller()
        for socket in (self._in, self._router):
            if socket is not None:
                poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            # A replay then contains everything that was published before it was asked for.
            if not self._forward():
                return
            if self._router is not None and self._router in ready:
                self._send_again(self._router)

    def _forward(self) -> bool:
        """Send all that is queued; False if the publisher is to end."""
        while True:
            try:
                queued = self._in.recv(zmq.NOBLOCK)
            except zmq.Again:
                return True
            if not queued:
                return False
            number, payload = queued[:8], queued[8:]
            self._keep(int.from_bytes(number, "big"), payload)
            self._pub.send_multipart([self._topic, number, payload])
            self._handled += 1

    def _keep(self, number: int, payload: bytes) -> None:
        if len(self._sent) == self._sent.maxlen:
            self._bytes -= len(self._sent.popleft()[1])
        self._sent.append((number, payload))
        self._bytes += len(payload)
        while self._bytes > BUFFER_BYTES and len(self._sent) > 1:
            self._bytes -= len(self._sent.popleft()[1])

    def _send_again(self, router: zmq.Socket[Any]) -> None:
        """Answer a request: ``[reader, empty, first number]``."""
        frames = router.recv_multipart()
        if len(frames) != 3 or len(frames[2]) != 8:
            self._refused += 1
            return
        reader, first = frames[0], int.from_bytes(frames[2], "big")
        oldest = self._sent[0][0] if self._sent else 0
        if first < oldest and self._complete < oldest:
            self._behind = True
        for number, payload in self._sent:
            if number >= first:
                self._replayed += 1
                again = number.to_bytes(8, "big")
                router.send_multipart([reader, b"", self._topic, again, payload])
        router.send_multipart([reader, b"", b"", END, b""])
