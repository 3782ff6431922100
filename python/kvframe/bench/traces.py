"""Where a trace comes from: inside the package, a file, or standard input."""

import hashlib
import os
import sys
from dataclasses import dataclass, field
from importlib import resources

from kvframe import _core
from kvframe.errors import TraceError
from kvframe.files import TRACE_BYTES, read_open, read_stream
from kvframe.spelling import did_you_mean

SUFFIX = ".kvt.gz"


@dataclass(frozen=True)
class Source:
    """A parsed trace, the name it was asked by, and the SHA-256 of the bytes it came from."""

    name: str
    sha256: str
    trace: _core.Trace = field(repr=False, compare=False)


def shipped() -> list[str]:
    """Names of the traces inside the package, sorted."""
    folder = resources.files("kvframe") / "traces"
    if not folder.is_dir():
        return []
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


def load(name: str, block_size: int | None = None) -> Source:
    """Read and parse one trace.

    Args:
        name: a shipped name (it wins; write ``./conversation`` for a file of that name), a path to
            Mooncake JSONL or kvframe's compact form, gzip or plain, or ``-`` for standard input.
        block_size: tokens a block where the rows do not say; 512 when None.

    Raises:
        TraceError: nothing of that name, unreadable, or not a trace; names file and line.
    """
    data = _read(name)
    # A file name need not be UTF-8, what is printed and written as JSON must be.
    label = "<stdin>" if name == "-" else os.fsencode(name).decode(errors="replace")
    trace = _core.Trace.parse(data, label, block_size)
    return Source(name=label, sha256=hashlib.sha256(data).hexdigest(), trace=trace)


def read_stdin() -> bytes:
    """All of standard input.

    Raises:
        TraceError: it is closed, or cannot be read.
    """
    if sys.stdin is None:  # `<&-`
        raise TraceError("<stdin>: closed")
    try:
        return read_open(sys.stdin.buffer, "<stdin>", TRACE_BYTES)
    except OSError as error:
        raise TraceError(f"<stdin>: {error.strerror}") from None


def _read(name: str) -> bytes:
    if name == "-":
        return read_stdin()
    known = shipped()
    if name in known:
        return (resources.files("kvframe") / "traces" / f"{name}{SUFFIX}").read_bytes()
    try:
        return read_stream(name, TRACE_BYTES)
    except FileNotFoundError:
        raise TraceError(
            f"{name}: no such file, nor a shipped trace ({', '.join(known) or 'none found'})"
            f"{did_you_mean(name, known)}"
        ) from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
