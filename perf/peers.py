"""The other side of a comparison: a program in a Python of its own, asked by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SIDES = Path(__file__).parent / "sides"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kvframe-perf"


class PeerError(Exception):
    """The peer's Python is missing, lacks the peer, or its program ended."""


class Peer:
    """A program of ``perf/sides`` that answers each request with one line of JSON.

    Args:
        side: File name in ``perf/sides``; its first answer names the peer and its version.
        python: The interpreter that can import the peer.
        *args: What the program is given.
        **env: Variables to set for it.

    Raises:
        PeerError: It does not start.
    """

    def __init__(self, side: str, python: str, *args: str, **env: str) -> None:
        try:
            self._program = subprocess.Popen(
                [python, str(SIDES / side), *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **env},
            )
        except OSError as error:
            raise PeerError(f"{python}: {error.strerror}") from None
        self.name = str(self._answer()["peer"])

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            PeerError: The program ended.
        """
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(json.dumps(request) + "\n")
            self._program.stdin.flush()
        except BrokenPipeError:
            raise PeerError("the peer's program ended") from None
        return self._answer()

    def kill(self) -> None:
        """End the program at once, whatever it is doing."""
        self._program.kill()
        self._program.wait()
        for pipe in (self._program.stdin, self._program.stdout):
            assert pipe is not None
            pipe.close()

    def _answer(self) -> dict[str, Any]:
        assert self._program.stdout is not None
        line = self._program.stdout.readline()
        if not line:
            code = self._program.wait()
            raise PeerError(f"the peer's program ended with code {code}; its messages are above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close its input, at which it ends."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()


def python_with(requirement: str) -> str:
    """The Python of a virtual environment that holds ``requirement``, made in the cache if need be.

    Raises:
        PeerError: pip cannot install it.
    """
    folder = CACHE / requirement.replace("==", "-")
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists():
        return str(python)
    print(f"installing {requirement} into {folder}", file=sys.stderr)
    install = [str(python), "-m", "pip", "install", "--quiet", requirement]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdout=sys.stderr)
        subprocess.run(install, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerError(f"{requirement} cannot be installed: {error}") from None
    ready.touch()
    return str(python)
