"""Opening a trace: shipped, a file, a folder or standard input, ready for the core's reader."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from kvframe._core import Trace
from kvframe.errors import TraceError
from kvframe.spelling import did_you_mean
from kvframe.traces.blocks import DEFAULT, block_size_of
from kvframe.traces.feed import Feed, rows_of
from kvframe.traces.forms.hashes import Mooncake
from kvframe.traces.forms.objects import FLAT, LCSLLM, Whole
from kvframe.traces.reader import Given, Head, Row, TraceReader
from kvframe.traces.recognise import head_of, reader_for
from kvframe.traces.records import records
from kvframe.traces.streams import Stream, folder, label_of, opened, unpacked
from kvframe.traces.tokenizer import tokenizer_of
from kvframe.traces.values import TIMES, epoch_unit, first_of

SUFFIX = ".kvt.gz"
_ASSUMED = {"tokens": "ms", "mooncake": "ms", "aiperf": "ms"} | dict.fromkeys(
    ("chat", "openai", "gateway", "prompts"), "s"
)
"""What forms whose times are in one unit or another are read in, if nothing says otherwise."""
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
TICKS = "a log's ticks are read as milliseconds; --time-unit says what its clock is in"


@dataclass(frozen=True)
class ReadOptions:
    """How a trace is read, as the command line has it.

    Attributes:
        block_size: Tokens a block where the file does not say.
        time_unit: "s", "ms", "us" or "ns", of times that are numbers; None: what the form says.
        form: Name of its reader; None: recognised by content.
        sort: Put the requests in order of time, in memory.
        tokenizer: Of forms that keep text.
    """

    block_size: int | None = None
    time_unit: str | None = None
    form: str | None = None
    sort: bool = False
    tokenizer: str | None = None


@dataclass
class OpenTrace:
    """A trace that is about to be read.

    Attributes:
        label: What messages call it.
        reader: Of its form.
        file: What the core reads, by `read`.
        remarks: What a user must know of its figures; reading adds to it.
        block_size: Tokens a block where the rows do not say.
        time_unit: Of the rows' times, where they are not in milliseconds; None: by the rows.
        sort: Put the requests in order of time, in memory.
        core_form: The core's name of a form that it does not recognise itself.
    """

    label: str
    reader: TraceReader
    file: Any
    remarks: list[str]
    block_size: int | None
    time_unit: str | None
    sort: bool = False
    core_form: str | None = None
    _raw: Stream = field(kw_only=True, repr=False)

    def read(self) -> Trace:
        """All of it, in the core."""
        return Trace.read(
            self.file, self.label, self.block_size, self.time_unit, self.core_form, sort=self.sort
        )

    def sha256(self) -> str:
        """The hash of the file as it lies there, once it is read."""
        return self._raw.sha256()


def shipped() -> list[str]:
    """Names of the traces inside the package, sorted."""
    here = resources.files("kvframe") / "traces"
    if not here.is_dir():
        return []
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in here.iterdir() if entry.name.endswith(SUFFIX)
    )


@contextmanager
def open_trace(name: str, options: ReadOptions) -> Iterator[OpenTrace]:
    """Open a trace and find its reader; it is closed at the end of the ``with`` statement.

    Args:
        name: A shipped name (it wins; write ``./conversation`` for a file of that name), a file, a
            folder whose files are sessions, or ``-`` for standard input.
        options: How to read it.

    Raises:
        TraceError: There is nothing of that name, or it cannot be replayed as it is; the message
            says what it seems to be, and what to do.
        ConfigError: An option has an impossible value.
    """
    raw = _raw(name)
    try:
        yield _ready(raw, options)
    finally:
        raw.release()


def _ready(raw: Stream, options: ReadOptions) -> OpenTrace:
    stream, head, reader = _recognised(raw, options)
    if reader.lacks == "prefixes":
        what = (
            "lengths and times, but no prefixes, so nothing could hit; `kvframe trace synth "
            f"{raw.name} -o made.jsonl` makes prefixes up, by rules that you choose"
        )
        raise TraceError(f"{raw.name}: seems to be {reader.title}: {what}", raw.name)
    given = _given(raw.name, options, reader)
    _guess_time_unit(given, head, reader)
    if mark := head.first.get("synthesised"):
        given.remark(f"not recorded: {mark}")
    found = OpenTrace(
        raw.name,
        reader,
        stream,
        given.remarks,
        options.block_size,
        given.time_unit,
        options.sort,
        _raw=raw,
    )
    if isinstance(reader, LCSLLM):
        reader.check(head)
    if isinstance(reader, Whole):
        found.file = io.BytesIO(reader.convert(stream.read(), given))
        found.time_unit = None
        return found
    if reader.name == "oracle-general":
        given.remark(FLAT)
        found.core_form = reader.name
    if isinstance(reader, Mooncake):
        _guess_block_size(found, given, head)
        if Mooncake.is_native(head):
            return found
    if reader.native:
        return found
    given.block_size = found.block_size
    rows = rows_of(reader, records(stream, head.encoding), given, any_order=options.sort)
    found.file = Feed(rows)
    found.time_unit = "ms"  # as `Row` has them, with fractions or without
    return found


def open_lengths(name: str, options: ReadOptions) -> tuple[Given, list[Row]]:
    """The rows of a form that has no prefixes.

    Raises:
        TraceError: The form has prefixes, or cannot be read.
    """
    raw = _raw(name)
    try:
        stream, head, reader = _recognised(raw, options)
        if reader.lacks != "prefixes":
            what = "has prefixes of its own: only lengths can have some made up"
            raise TraceError(f"{raw.name}: seems to be {reader.title}, which {what}", raw.name)
        given = _given(raw.name, options, reader)
        rows = list(rows_of(reader, records(stream, head.encoding), given, any_order=options.sort))
    finally:
        raw.release()
    if not rows:
        raise TraceError(f"{raw.name}: no requests", raw.name)
    if options.sort:
        rows.sort(key=lambda row: row.timestamp)
    return given, rows


def _recognised(raw: Stream, options: ReadOptions) -> tuple[Stream, Head, TraceReader]:
    stream = unpacked(raw)
    try:
        head = head_of(stream)
        reader = reader_for(head, options.form)
    except TraceError:
        for part in raw.parts:  # one of them may be at fault, and then its own error names it
            file = opened(str(part))
            try:
                reader_for(head_of(unpacked(file)))
            finally:
                file.release()
        raise
    seems = f"{raw.name}: seems to be {reader.title}: "
    if reader.lacks == "requests":
        raise TraceError(seems + reader.advice, raw.name)
    if reader.lacks == "tokens" and options.tokenizer is None:
        what = (
            "text, and blocks are of tokens; --tokenizer FILE, a model's tokenizer.json, makes "
            "them (pip install 'kvframe[text]')"
        )
        raise TraceError(seems + what, raw.name)
    return stream, head, reader


def _raw(name: str) -> Stream:
    known = shipped()
    if name in known:
        file = resources.files("kvframe") / "traces" / f"{name}{SUFFIX}"
        return Stream(name, io.BytesIO(file.read_bytes()), hashed=True)
    try:
        if name != "-" and Path(name).is_dir():
            return folder(name)
        return opened(name)
    except FileNotFoundError:
        raise TraceError(
            f"{name}: no such file, nor a shipped trace ({', '.join(known) or 'none found'})"
            f"{did_you_mean(name, known)}"
        ) from None
    except TraceError:
        raise
    except (OSError, ValueError) as error:
        label = label_of(name)
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{label}: {why}", label) from None


def _given(label: str, options: ReadOptions, reader: TraceReader) -> Given:
    given = Given(label, options.block_size, options.time_unit)
    if options.tokenizer is not None and reader.lacks == "tokens":
        given.tokenize = tokenizer_of(options.tokenizer)
    elif options.tokenizer is not None:
        given.remark(f"{reader.title} keep no text: --tokenizer {options.tokenizer} is not used")
    return given


def _guess_time_unit(given: Given, head: Head, reader: TraceReader) -> None:
    """Takes times since 1970 for what they are, where the form would read them in another unit."""
    assumed = _ASSUMED.get(reader.name)
    if given.time_unit is not None or assumed is None:
        return
    rows = [record.value for record in head.records if isinstance(record.value, dict)]
    time = next((time for row in rows if (time := first_of(row, TIMES)) is not None), None)
    unit = epoch_unit(time)
    if unit not in (None, assumed):
        given.time_unit = unit
        given.remark(
            f"times such as {time} look like {_UNITS[unit]} since 1970, and are read so; if they "
            f"are {_UNITS[assumed]}, say --time-unit {assumed}"
        )


def _guess_block_size(found: OpenTrace, given: Given, head: Head) -> None:
    if found.block_size is not None:
        return
    size = block_size_of(head)
    if size is None and found.reader.name == "bailian":
        size = 16
    if size not in (None, DEFAULT):
        given.remark(f"blocks are read as {size} tokens, which the numbers of ids say")
        found.block_size = size
