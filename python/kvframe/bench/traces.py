"""A trace that is read and ready to be replayed, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kvframe import _core
from kvframe.bench.outcomes import RequestFacts
from kvframe.errors import TraceError
from kvframe.traces.forms.objects import Whole
from kvframe.traces.remarks import UNIT, RequestTotals, remarks
from kvframe.traces.source import TICKS, ReadOptions, open_trace, shipped
from kvframe.traces.streams import opened

__all__ = ["ReadOptions", "Source", "load", "read", "read_stdin", "shipped"]


@dataclass(frozen=True)
class Source:
    """A parsed trace, the name it was asked by, and the SHA-256 of the bytes it came from.

    ``time_unit`` is what its times were taken to be in: ms, s, us, ns, or ticks of a log. ``doubt``
    says why they may be something else; empty where nothing speaks for it. ``remarks`` says what
    else its figures depend on, and ``form`` what it was recognised as. ``load`` divides the times,
    and ``arrival_seed`` drew the arrivals anew where it is not 0 (`kvframe.bench.arrivals`);
    ``block_factor`` blocks that were read make one, and ``as_read`` is the trace in these.
    """

    name: str
    sha256: str
    trace: _core.Trace = field(repr=False, compare=False)
    time_unit: str = "ms"
    doubt: str = ""
    form: str = "mooncake"
    remarks: tuple[str, ...] = ()
    load: float = 1.0
    arrival_seed: int = 0
    block_factor: int = 1
    as_read: _core.Trace | None = field(default=None, repr=False, compare=False)

    @cached_property
    def facts(self) -> RequestFacts:
        """What it says of each request."""
        columns = self.trace.columns()
        session = columns["session"]
        tell = self.trace if self.as_read is None else self.as_read
        told = np.zeros(0, np.int64) if (session >= 0).any() else tell.sessions_by_prompts()
        return RequestFacts(columns["input_tokens"], session, columns["timestamp_ms"], told)


def load(name: str, block_size: int | None = None, time_unit: str | None = None) -> Source:
    """Read and parse one trace, recognised by its content.

    Args:
        name: As `kvframe.traces.source.open_trace` has it.
        block_size: tokens a block where the rows do not say; 512 when None.
        time_unit: "s", "ms", "us" or "ns", of times that are numbers; when None, what the form
            says.

    Raises:
        TraceError: nothing of that name, unreadable, or not a trace; names file and line.
    """
    return read(name, ReadOptions(block_size, time_unit))


def read(name: str, options: ReadOptions) -> Source:
    """As `load`, with all that the command line can say.

    Raises:
        TraceError: As `load`.
        ConfigError: An option has an impossible value.
    """
    with open_trace(name, options) as found:
        trace = found.read()
        sha256 = found.sha256()
    unit, doubt = trace.time_unit, UNIT.get(trace.time_unit, "") if trace.unit_in_doubt else ""
    if found.reader.name == "kvframe-log":
        unit, doubt = options.time_unit or "tick", "" if options.time_unit else TICKS
    given = options.time_unit is not None or isinstance(found.reader, Whole)
    columns = trace.columns()
    times = columns["timestamp_ms"]
    totals = RequestTotals.of(
        columns["input_tokens"], (int(times[0]), int(times[-1])), trace.block_size
    )
    told = remarks(totals, trace.ids_repeat, given, options.block_size)
    return Source(
        found.label, sha256, trace, unit, doubt, found.reader.name,
        (*found.remarks, *told),
    )  # fmt: skip


def read_stdin() -> bytes:
    """All of standard input.

    Raises:
        TraceError: it is closed, or cannot be read.
    """
    try:
        return opened("-").read()
    except OSError as error:
        raise TraceError(f"<stdin>: {error.strerror}") from None
