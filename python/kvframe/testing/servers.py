"""A server process that the tests of a store start, stall and kill."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_TRY_AGAIN_S = 0.01


class ServerProcess:
    """A program that listens on loopback. As a context manager it starts the program, and ends it.

    Args:
        command: The program and its arguments, the port among them.
        port: Where it listens.
        log: A file to which its output is appended; the output is dropped if None.
    """

    def __init__(self, command: Sequence[str], port: int, log: Path | None = None) -> None:
        self.port = port
        self._command = list(command)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 10) -> None:
        """Start it, for the first time or again, and wait until it listens.

        Raises:
            TimeoutError: The program does not listen on its port in time.
        """
        if self._log is None:
            self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        else:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        end = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=0.2).close()
                return
            except OSError:
                if time.monotonic() > end:
                    self.kill()
                    message = f"{self._command[0]}: nobody listens on port {self.port}"
                    raise TimeoutError(message) from None
                time.sleep(_TRY_AGAIN_S)

    def stall(self) -> Callable[[], None]:
        """Stop the program from answering, until the returned function is called."""
        self._signal(signal.SIGSTOP)
        return lambda: self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the program at once, even if it is stalled; a program that has ended stays so."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def free_port() -> int:
    """A free port of loopback."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
