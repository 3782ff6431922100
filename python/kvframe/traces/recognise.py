"""Which reader a file is for: the one that is named, or the first that recognises its start."""

from __future__ import annotations

from collections.abc import Sequence

from kvframe.errors import ConfigError, TraceError
from kvframe.registry import Registry
from kvframe.spelling import did_you_mean
from kvframe.traces.forms import FORMS
from kvframe.traces.reader import Head, TraceReader
from kvframe.traces.records import encoding_of, first_records
from kvframe.traces.streams import HEAD, Stream

NEXT = (
    "if it is one of the forms that kvframe reads, name it with --trace-format; else convert it to "
    '{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]} a line'
)
_ELSE = {
    b"SQLite format 3\0": "an SQLite database: export the table as CSV or JSON lines",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"\x7fELF": "a program",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "HDF5: export its columns as Parquet or CSV",
    b"ARROW1": "Arrow IPC: write it as Parquet",
    b"ORC": "ORC: write it as Parquet",
    b"Obj\x01": "Avro: write it as Parquet or JSON lines",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"Rar!": "a RAR archive: unpack it first",
    b"\x04\x22\x4d\x18": "packed with lz4: unpack it first",
    b"\x1f\x9d": "packed with compress: unpack it first",
    b"\x80\x04": "a pickle, which is not read: loading one runs its code",
    b"\x80\x05": "a pickle, which is not read: loading one runs its code",
    b"\xff\xfe": "text in UTF-16: write it as UTF-8",
    b"\xfe\xff": "text in UTF-16: write it as UTF-8",
    b"version https://git-lfs": "a Git LFS pointer, not the file: `git lfs pull` gets that",
    b"<!DOCTYPE html": "a web page, perhaps an error in place of a download",
    b"<html": "a web page, perhaps an error in place of a download",
}
"""How files begin that are no traces, and what to do with each."""


def head_of(stream: Stream) -> Head:
    """The start of an unpacked stream, of which nothing is taken."""
    encoding = encoding_of(stream)
    found = first_records(stream, encoding)
    return Head(encoding, stream.peek(HEAD), found, stream.name)


def reader_for(head: Head, form: str | None = None) -> TraceReader:
    """The reader that ``form`` names, or that recognises the file.

    Raises:
        ConfigError: There is no such form.
        TraceError: No reader recognises the file: it says what the file seems to be.
        PluginError: The reader's package is broken.
    """
    if form is not None:
        return _named(form)
    for reader in FORMS:
        if reader.recognises(head):
            return reader
    for reader in _installed():
        if reader.recognises(head):
            return reader
    raise TraceError(f"{head.name}: {_seems(head)}", head.name)


def names() -> Sequence[str]:
    """What ``--trace-format`` takes, installed readers among them."""
    return [*(reader.name for reader in FORMS), *_candidates()]


def _named(form: str) -> TraceReader:
    for reader in FORMS:
        if reader.name == form:
            return reader
    if form in _candidates():
        return _made(form)
    known = names()
    hint = did_you_mean(form, known) or f": must be one of {', '.join(known)}"
    raise ConfigError(f"--trace-format {form}{hint}")


def _candidates() -> list[str]:
    return [found.name for found in Registry().candidates("trace")]


def _installed() -> list[TraceReader]:
    return [_made(name) for name in _candidates()]


def _made(name: str) -> TraceReader:
    descriptor = Registry().trace(name).descriptor
    assert descriptor.make is not None
    reader = descriptor.make(None)
    if not isinstance(reader, TraceReader):
        raise ConfigError(f"--trace-format {name}: its plugin makes no TraceReader")
    return reader


def _seems(head: Head) -> str:
    for magic, what in _ELSE.items():
        if head.data.startswith(magic):
            return f"is {what}"
    if head.data[257:262] == b"ustar":
        return "is a tar archive: unpack it first"
    if not head.data:
        return "no requests: the file is empty"
    if not head.data.strip():
        return "no requests: only blank lines"
    if head.encoding == "binary":
        return f"seems to be binary data of no form that is known; {NEXT}"
    if head.encoding == "text":
        line = head.data.strip().splitlines()[0].decode(errors="replace")[:60]
        return f"seems to be lines of text such as {line!r}; {NEXT}"
    keys = ", ".join(map(repr, list(head.first)[:8]))
    encoding = {"csv": "CSV", "jsonl": "JSON lines", "json": "JSON"}.get(head.encoding, "Parquet")
    if not keys:
        return f"no requests: {encoding} without objects; {NEXT}"
    return f"seems to be {encoding} with {keys}, which no reader knows; {NEXT}"
