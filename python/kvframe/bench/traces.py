"""Where a trace comes from: inside the package, a file, or standard input."""

import hashlib
import os
import sys
from dataclasses import dataclass, field
from importlib import resources

from kvframe import _core
from kvframe.bench import logs, streams
from kvframe.errors import TraceError
from kvframe.files import TRACE_BYTES, read_open, read_stream
from kvframe.spelling import did_you_mean
from kvframe.stats.log import EventLog
from kvframe.stats.saved import is_log
from kvframe.wire.recording import is_recording

SUFFIX = ".kvt.gz"

_DOUBTS = {
    "ms": "times with fractions are read as milliseconds; if they are seconds, say --time-unit s",
    "s": "whole numbers are read as seconds, as rows with chat_id have them; if they are "
    "milliseconds, say --time-unit ms",
}
_STORED = "events show what was stored: requests that found their whole prompt are missing"
_TICKS = "a log's ticks are read as milliseconds; --time-unit says what its clock is in"


@dataclass(frozen=True)
class Source:
    """A parsed trace, the name it was asked by, and the SHA-256 of the bytes it came from.

    ``time_unit`` is what its times were taken to be in: ms, s, or ticks of a log. ``doubt`` says
    why they may be something else; empty where nothing speaks for it.
    """

    name: str
    sha256: str
    trace: _core.Trace = field(repr=False, compare=False)
    time_unit: str = "ms"
    doubt: str = ""


def shipped() -> list[str]:
    """Names of the traces inside the package, sorted."""
    folder = resources.files("kvframe") / "traces"
    if not folder.is_dir():
        return []
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


def load(name: str, block_size: int | None = None, time_unit: str | None = None) -> Source:
    """Read and parse one trace.

    Args:
        name: a shipped name (it wins; write ``./conversation`` for a file of that name), a path to
            Mooncake JSONL, kvframe's compact form, a saved `EventLog` or recorded KV events, gzip
            or plain, or ``-`` for standard input.
        block_size: tokens a block where the rows do not say; 512 when None.
        time_unit: "ms" or "s", that of the times of JSONL rows or of a log's clock; when None,
            what the form of the rows says, and a log's ticks.

    Raises:
        TraceError: nothing of that name, unreadable, or not a trace; names file and line.
    """
    data = _read(name)
    # A file name need not be UTF-8, what is printed and written as JSON must be.
    label = "<stdin>" if name == "-" else os.fsencode(name).decode(errors="replace")
    sha256 = hashlib.sha256(data).hexdigest()
    if is_log(data):
        rows = logs.rows(EventLog.parse(data, label), label, time_unit)
        trace = _core.Trace.parse(rows, label)
        return Source(label, sha256, trace, time_unit or "tick", "" if time_unit else _TICKS)
    if is_recording(data):
        trace = _core.Trace.parse(streams.rows(data, label), label)
        return Source(label, sha256, trace, "ms", _STORED)
    trace = _core.Trace.parse(data, label, block_size, time_unit)
    doubt = _DOUBTS[trace.time_unit] if trace.unit_in_doubt else ""
    return Source(label, sha256, trace, trace.time_unit, doubt)


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
