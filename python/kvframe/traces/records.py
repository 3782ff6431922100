"""What a stream holds, one after the other: JSON lines or lists, CSV, Parquet, lines of text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kvframe.errors import TraceError
from kvframe.files import TRACE_BYTES
from kvframe.stats.saved import MAGIC as LOG
from kvframe.traces.reader import Encoding, Record
from kvframe.traces.streams import HEAD, LONGEST_LINE, Stream, whole

COMPACT = b"#kvframe-trace "
LCSLLM = (0x6C63736C6C6D0001).to_bytes(8, "little")
PARQUET = b"PAR1"
BOM = b"\xef\xbb\xbf"
KEPT = 64
"""How many records a form is recognised by."""

_DELIMITERS = b",\t;|"
_LIST = re.compile(rb"\[\s*([\[{\]\"]|-?\d+\s*[,\]])")
_NUMBER = re.compile(rb"\s*-?\d+(\.\d+)?\s*")


def encoding_of(stream: Stream) -> Encoding:
    """How its records are kept, by its first bytes; of a long first line, by all of it."""
    data = stream.peek(HEAD)
    if data.startswith(COMPACT):
        return "compact"
    if data.startswith(LOG):
        return "log"
    if data.startswith(PARQUET):
        return "parquet"
    if b"\0" in data:
        return "binary"
    text = data.removeprefix(BOM).lstrip()
    if _LIST.match(text):
        return "json"
    if text.startswith(b"{"):
        if stream.is_many:  # each may be over as many lines as it likes
            return "json"
        return "jsonl" if _is_object(_first_line(stream)) else "json"
    line = text.partition(b"\n")[0]
    return "csv" if _is_csv(line) else "text"


def records(stream: Stream, encoding: Encoding) -> Iterator[Record]:
    """Every record.

    Raises:
        TraceError: The encoding is damaged; names file and line.
    """
    match encoding:
        case "jsonl":
            return _objects(stream)
        case "json":
            return _listed(stream)
        case "csv":
            return _table(stream)
        case "parquet":
            return _columns(stream)
        case _:
            return _lines(stream)


def first_records(stream: Stream, encoding: Encoding) -> list[Record]:
    """Some records that lie whole within the head; nothing is taken from the stream."""
    if encoding in ("compact", "log", "binary"):
        return []
    line = _first_line(stream) if encoding != "parquet" else b""
    data = stream.peek(TRACE_BYTES if encoding == "parquet" else max(HEAD, len(line) + 1))
    if encoding not in ("json", "parquet") and len(data) == max(HEAD, len(line) + 1):
        data = data[: data.rfind(b"\n") + 1] or data
    found: list[Record] = []
    try:
        for record in records(Stream(stream.name, io.BytesIO(data)), encoding):
            found.append(record)
            if len(found) == KEPT:
                break
    except TraceError:
        # Either the head ends inside a record, or reading the file will say what is wrong; unless
        # this was all of it, and nothing was found.
        if encoding == "parquet" or (not found and len(data) < HEAD):
            raise
    return found


def _first_line(stream: Stream) -> bytes:
    """The first line that is not blank, or what the longest line holds of it."""
    size = HEAD
    while True:
        data = stream.peek(size)
        text = data.removeprefix(BOM).lstrip()
        line, end, _ = text.partition(b"\n")
        if end or len(data) < size or size > LONGEST_LINE:
            return line
        size *= 4


def _is_object(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Damaged in its first line, or an object over many lines: only the first ends in a brace.
        return line.rstrip().endswith(b"}")
    return True


def _is_csv(line: bytes) -> bool:
    cells = re.split(rb"[,\t;|]", line.lstrip(b"#"))
    named = [cell.strip().strip(b'"') for cell in cells]
    if len(cells) < 2:
        return False
    if all(_NUMBER.fullmatch(cell) for cell in cells[:2]):
        return True
    return all(re.fullmatch(rb"[A-Za-z_][\w .()/-]{0,60}", name) for name in named)


def _numbered(stream: Stream) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    file = io.BufferedReader(stream, 1 << 20)
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise _error(stream, number, f"a line of more than {LONGEST_LINE} bytes")
        if number == 1:
            line = line.removeprefix(BOM)
        if line := line.strip():
            yield number, line
    file.detach()


def _objects(stream: Stream) -> Iterator[Record]:
    decoder = msgspec.json.Decoder()
    for number, line in _numbered(stream):
        try:
            yield Record(number, decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _error(stream, number, f"not JSON: {error}") from None


def _lines(stream: Stream) -> Iterator[Record]:
    for number, line in _numbered(stream):
        yield Record(number, line.decode(errors="replace"))


def _listed(stream: Stream) -> Iterator[Record]:
    """The items of one list, or objects one after the other over any lines; without all at once."""
    decode = json.JSONDecoder().raw_decode
    file = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", errors="replace")
    text, at, number, size = "", 0, 0, HEAD
    ended = False
    while True:
        while at < len(text) and text[at] in " \t\r\n,[]":
            at += 1
        try:
            value, at = decode(text, at)
        except ValueError as error:
            if ended and at >= len(text):
                return
            if ended or len(text) - at > 4 * LONGEST_LINE:
                raise _error(stream, number + 1, f"not JSON: item {number + 1}: {error}") from None
            more = file.read(size)
            ended = not more
            # An item may be as long as the text so far, so parsing is tried again only after a
            # longer read.
            text, at, size = text[at:] + more, 0, min(max(size, 2 * len(text)), LONGEST_LINE)
            continue
        if at == len(text) and not ended and not isinstance(value, (dict, list, str)):
            raise _error(stream, number + 1, "a list of numbers: a trace has objects")
        number += 1
        yield Record(number, value)


def _table(stream: Stream) -> Iterator[Record]:
    """Rows of CSV, as objects by the names of the first row; by place where it has numbers."""
    head = stream.peek(HEAD).removeprefix(BOM).partition(b"\n")[0]
    delimiter = max(_DELIMITERS.decode(), key=lambda one: head.count(one.encode()))
    csv.field_size_limit(LONGEST_LINE)
    file = io.TextIOWrapper(
        io.BufferedReader(stream), encoding="utf-8-sig", errors="replace", newline=""
    )
    reader = csv.reader(file, delimiter=delimiter)
    names: list[str] | None = None
    try:
        for cells in reader:
            if not cells:
                continue
            if names is None:
                has_names = not all(_NUMBER.fullmatch(cell.encode()) for cell in cells[:2])
                names = [cell.strip().lstrip("#").strip() for cell in cells] if has_names else []
                if has_names:
                    continue
            if names and len(cells) != len(names):
                what = f"{len(cells)} columns: the first row names {len(names)}"
                raise _error(stream, reader.line_num, what)
            keys = names or [str(place) for place in range(len(cells))]
            yield Record(reader.line_num, dict(zip(keys, cells, strict=True)))
    except csv.Error as error:
        raise _error(stream, reader.line_num, f"not CSV: {error}") from None


def _columns(stream: Stream) -> Iterator[Record]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        what = "is Parquet: pip install 'kvframe[trace]' to read it"
        raise TraceError(f"{stream.name}: {what}", stream.name) from None
    number = 0
    try:
        file = parquet.ParquetFile(whole(stream))
        for batch in file.iter_batches(1024):
            for row in batch.to_pylist():
                number += 1
                yield Record(number, row)
    except pyarrow.ArrowException as error:
        raise _error(stream, number + 1, f"not Parquet: {' '.join(str(error).split())}") from None


def _error(stream: Stream, number: int, what: Any) -> TraceError:
    return TraceError(f"{stream.name}:{number}: {what}", stream.name, number)
