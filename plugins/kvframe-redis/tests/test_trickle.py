"""A server that answers byte by byte holds no call beyond its time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from kvframe_redis import Options, Redis

MOST = 2000
"""Bytes that it sends at the most, 20 ms apart: forty seconds."""


class Trickle:
    """Answers commands at once until one asks for a page, and that one byte by byte."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.accepted = self.sent = 0
        self._closing = threading.Event()

    def serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            if self._closing.is_set():
                connection.close()
                self._listening.close()
                return
            self.accepted += 1
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        while asked := connection.recv(1 << 16):
            if b"GETRANGE" not in asked:
                connection.sendall(b"+OK\r\n" * sum(asked.count(x) for x in (b"PING", b"CLIENT")))
                continue
            connection.sendall(b"$100000\r\n")
            for _ in range(MOST):
                if self._closing.wait(0.02):
                    return
                try:
                    connection.sendall(b"x")
                except OSError:
                    return
                self.sent += 1

    def close(self) -> None:
        self._closing.set()
        socket.create_connection(("127.0.0.1", self.port)).close()


@pytest.fixture
def server() -> Iterator[Trickle]:
    made = Trickle()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(made.serve)
        yield made
        made.close()
        serving.result(60)


def test_a_batch_has_one_time_for_all_its_reads(server: Trickle) -> None:
    url = f"redis://127.0.0.1:{server.port}/0?protocol=2"
    store = Redis(Options(url=url, timeout_ms=300))
    with pytest.raises(redis.TimeoutError):
        store.get(["kv1-page"])
    assert 0 < server.sent < MOST
    assert server.accepted == 1  # it is not asked again
    store.close()
