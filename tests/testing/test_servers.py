"""A server of a test listens, stalls, is killed and comes back."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from kvframe.testing import ServerProcess, free_port

ECHO = """
import socket, sys
print("here", flush=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client, _ = server.accept()
    client.sendall(client.recv(9))
"""


def echo(port: int, seconds: float = 10) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        client.sendall(b"hello")
        return client.recv(9)


def test_it_listens_stalls_dies_and_comes_back(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    with ServerProcess([sys.executable, "-c", ECHO, str(port)], port, log) as server:
        assert echo(port) == b"hello"
        go_on = server.stall()
        with pytest.raises(TimeoutError):
            echo(port, 0.05)
        go_on()
        assert echo(port) == b"hello"
        server.stall()
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            echo(port)
        server.start()
        assert echo(port) == b"hello"
    server.kill()
    assert log.read_text() == "here\n" * 2


def test_one_that_does_not_listen_is_told() -> None:
    silent = ServerProcess([sys.executable, "-c", "import time; time.sleep(9)"], free_port())
    with pytest.raises(TimeoutError, match=f"nobody listens on port {silent.port}"):
        silent.start(seconds=0.1)
