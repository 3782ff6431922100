"""Traces made of traces: converted, sampled, merged. Rows stream through; only merging sorts."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import xxhash

from kvframe import _core
from kvframe.errors import ConfigError, TraceError
from kvframe.traces.output import form_of, written
from kvframe.traces.reader import Row
from kvframe.traces.source import OpenTrace, ReadOptions, open_trace


def convert(name: str, options: ReadOptions, out: Path, form: str | None) -> list[str]:
    """Write a trace in another form. What readers had to remark.

    JSONL streams; the other forms need the whole trace in memory, 4 bytes a block access, because
    they say when a block comes again.

    Raises:
        TraceError: It cannot be read or written.
        ConfigError: An option has an impossible value.
    """
    target = form_of(out, form)
    with open_trace(name, options) as found, written(out) as file:
        if target == "mooncake":
            _rewritten(found, file)
        else:
            found.read().write(file, target)
    return found.remarks


def _rewritten(found: OpenTrace, file: Any) -> int:
    """Write the rows of a trace to ``file`` as JSONL; returns how many."""
    return _core.rewrite_rows(
        found.file,
        found.label,
        file,
        found.block_size,
        found.time_unit,
        found.core_form,
        sort=found.sort,
    )


class _Head(msgspec.Struct):
    """The part of a row that a filter looks at; the ids are not parsed."""

    session_id: int | None = None


class _Filter:
    """A file that keeps the lines that are wanted."""

    def __init__(self, file: Any, wanted: Callable[[int, bytes], bool]) -> None:
        self._file = file
        self._wanted = wanted
        self._rest = b""
        self.seen = self.kept = 0

    def write(self, data: bytes) -> None:
        """Some bytes of the rows."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._wanted(self.seen, line):
                self._file.write(line + b"\n")
                self.kept += 1
            self.seen += 1


def sample(
    name: str, options: ReadOptions, out: Path, share: float, first: int | None, seed: int
) -> tuple[int, int, list[str]]:
    """Write a share of a trace's sessions, all requests of each; of its requests, where it names
    none. How many requests were kept, of how many, and remarks.

    A session is drawn by its number and ``seed``, so that smaller samples are parts of larger ones.

    Args:
        name: The trace.
        options: How to read it.
        out: A JSONL file.
        share: Of the sessions, above 0 to 1.
        first: Look at no more requests than this.
        seed: Of the draw.

    Raises:
        TraceError: It cannot be read or written, or nothing was drawn.
        ConfigError: An option has an impossible value.
    """
    _must_be_rows(out)
    decoder = msgspec.json.Decoder(_Head)
    alone = 0

    def wanted(number: int, line: bytes) -> bool:
        nonlocal alone
        if first is not None and number >= first:
            return False
        session = decoder.decode(line).session_id
        alone += session is None
        drawn = f"{seed}:{number}" if session is None else f"{seed}:s{session}"
        return xxhash.xxh3_64_intdigest(drawn.encode()) < share * 2**64

    with open_trace(name, options) as found, written(out) as file:
        kept = _Filter(file, wanted)
        _rewritten(found, kept)
        if not kept.kept:
            raise TraceError(f"{found.label}: --share {share}: nothing was drawn", found.label)
    if alone and share < 1:
        found.remarks.append(
            f"{alone:,} requests name no session and were drawn one by one: what they share with "
            "others that were not drawn no longer hits"
        )
    return kept.kept, kept.seen, found.remarks


def merge(
    names: Sequence[str], options: ReadOptions, out: Path, gap: float | None, seed: int
) -> tuple[int, list[str]]:
    """Write traces as one, in order of time. Sessions and blocks of two traces are never the same.

    Args:
        names: The traces.
        options: How to read them.
        out: A JSONL file.
        gap: Mean seconds from a trace's start to the next one's, drawn exponentially; None: all
            keep their times.
        seed: Of the draw.

    Returns:
        The number of requests, and remarks.

    Raises:
        TraceError: One cannot be read, or their block sizes differ.
        ConfigError: An option has an impossible value.
    """
    _must_be_rows(out)
    dice = np.random.default_rng(seed)
    told: list[str] = []
    requests, start = 0, 0.0
    with tempfile.TemporaryDirectory(prefix="kvframe-merge-") as place:
        parts = []
        for at, name in enumerate(names):
            part = Path(place) / str(at)
            with open_trace(name, options) as found, part.open("wb") as file:
                requests += _rewritten(found, file)
            told += [f"{found.label}: {remark}" for remark in found.remarks]
            parts.append(_moved(part.open("rb"), at, None if gap is None else start))
            start += float(dice.exponential((gap or 0.0) * 1_000))
        with written(out) as file:
            _write_merged(parts, names, file)
    return requests, told


def _write_merged(parts: Sequence[Iterator[Row]], names: Sequence[str], file: Any) -> None:
    size: int | None = None
    for row in heapq.merge(*parts, key=lambda row: row.timestamp):
        size = size or row.block_size
        if row.block_size != size:
            what = f"blocks of {row.block_size} and of {size} tokens: a trace has one size"
            raise TraceError(f"{', '.join(names)}: {what}")
        file.write(msgspec.json.encode(row) + b"\n")


def _moved(file: BinaryIO, at: int, start: float | None) -> Iterator[Row]:
    """The rows of part ``at``, from ``start`` milliseconds on, with names of its own."""
    with file:
        by: float | None = None
        for line in file:
            row = msgspec.json.decode(line, type=Row)
            if by is None:
                by = 0.0 if start is None else start - row.timestamp
            row.timestamp = round(row.timestamp + by)
            row.hash_ids = [node + (at << 32) for node in row.hash_ids or ()]
            if row.session_id is not None:
                row.session_id = f"{at}:{row.session_id}"
            yield row


def _must_be_rows(out: Path) -> None:
    if form_of(out, None) != "mooncake":
        what = "must be JSONL (.jsonl, perhaps packed); `kvframe trace convert` makes other forms"
        raise ConfigError(f"-o {out}: {what}")
