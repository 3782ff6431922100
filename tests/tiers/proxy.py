"""A way to a server on loopback that can be cut off in the middle of an answer."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event
from types import TracebackType

from tests.workers import Worker


class Proxy:
    """Forwards connections to a port of loopback, until an answer is to stall or to break off.

    Args:
        port: Where the server listens.

    Attributes:
        port: Where this listens.
        connections: How many there were.
    """

    def __init__(self, port: int) -> None:
        self._to, self._left, self._breaks = port, -1, False
        self._go_on = Event()
        self._go_on.set()
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listens.getsockname()[1]
        self.connections = 0
        self._open: list[socket.socket] = []
        self._workers: list[Worker] = []
        self._begin(self._accept)

    def stall(self, after: int) -> None:
        """So many bytes of answers still come, then none until `go_on`."""
        self._go_on.clear()
        self._breaks, self._left = False, after

    def break_off(self, after: int) -> None:
        """So many bytes of answers still come, then the connection is closed; new ones work."""
        self._breaks, self._left = True, after

    def go_on(self) -> None:
        """All comes again."""
        self._left = -1
        self._go_on.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listens.accept()
                server = socket.create_connection(("127.0.0.1", self._to), timeout=10)
            except OSError:
                return
            self.connections += 1
            self._open += [client, server]
            for source, to, answers in ((client, server, False), (server, client, True)):
                server.settimeout(None)
                self._begin(partial(self._forward, source, to, answers))

    def _begin(self, work: Callable[[], None]) -> None:
        self._workers.append(Worker(work))
        self._workers[-1].start()

    def _forward(self, source: socket.socket, to: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(4096):
                if answers and self._left >= 0:
                    now, later = data[: self._left], data[self._left :]
                    self._left -= len(now)
                    to.sendall(now)
                    if not later:
                        continue
                    if self._breaks:
                        self._left = -1
                        break
                    self._go_on.wait()
                    data = later
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._go_on.set()
        self._listens.shutdown(socket.SHUT_RDWR)
        self._listens.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for worker in self._workers:
            worker.end(10)
        for end in self._open:
            end.close()
