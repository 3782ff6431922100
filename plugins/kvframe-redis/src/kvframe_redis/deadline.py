"""One end for a whole round trip: redis-py's timeout is of each read, and a server that sends byte
by byte would never reach it.
"""

from __future__ import annotations

import time
from typing import Any


def bounded(kind: type[Any], seconds: float) -> type[Any]:
    """A class of connections whose round trips end after ``seconds``, connecting apart.

    Args:
        kind: A class of connections of redis-py.
        seconds: From the first byte that is sent to the last one that is read.
    """

    class Bounded(kind):  # type: ignore[misc]
        end = 0.0

        def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            self.end = time.monotonic() + seconds
            super().send_packed_command(command, check_health)

        def _connect(self) -> Any:
            return _Socket(super()._connect(), self)

    return Bounded


class _Socket:
    """A connection's socket; what is left until the connection's end is each call's timeout."""

    def __init__(self, sock: Any, connection: Any) -> None:
        self._sock, self._connection = sock, connection
        self._waits = True

    def settimeout(self, timeout: float | None) -> None:
        self._waits = timeout != 0
        self._sock.settimeout(timeout)

    def sendall(self, data: Any) -> None:
        self._bound()
        self._sock.sendall(data)

    def recv(self, *args: Any) -> Any:
        self._bound()
        return self._sock.recv(*args)

    def recv_into(self, *args: Any) -> Any:
        self._bound()
        return self._sock.recv_into(*args)

    def _bound(self) -> None:
        if not self._waits:  # whether something is there is asked at any time
            return
        left = self._connection.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the round trip has taken too long")
        self._sock.settimeout(left)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)
