"""Results as they lie in files, recognised by what is in them."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kvframe.bench.charts.gathered import Gathered, Kept, Source, Traffic, by_traffic, together
from kvframe.bench.curve import CurveResult
from kvframe.bench.results import (
    RunRecord,
    decode_cells,
    decode_verdicts,
    read_cells,
    read_content,
    read_facts,
    read_names,
    read_outcomes,
    read_record,
    read_verdicts,
)
from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.report import ServerResult
from kvframe.bench.server.requests import RequestRow
from kvframe.bench.traces import read_stdin
from kvframe.errors import ConfigError
from kvframe.files import RESULT_BYTES, read_stream

WHAT = (
    "a directory of `kvframe bench run --out`, JSON of `kvframe bench run`, `serve`, `experiment` "
    "or `curve`, or rows of `kvframe bench serve --requests`"
)


def read_results(names: Sequence[str]) -> Gathered:
    """All results of these names, ``-`` for standard input.

    Raises:
        ConfigError: One is no result, cannot be read, or does not go with the others; names it.
    """
    return together(_one(name) for name in names)


def _one(name: str) -> Gathered:
    path = Path(name)
    if name != "-" and path.is_dir():
        return _directory(name)
    try:
        data = read_stdin() if name == "-" else read_stream(path, RESULT_BYTES)
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}") from None
    if data.lstrip()[:1] == b"{" and not _is_row(data.lstrip().partition(b"\n")[0]):
        return _json(name, data)
    return Gathered(rows=list(_rows(name, data)), sources=[Source(name, "requests of servers")])


def _is_row(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=RequestRow)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


# --- replays --------------------------------------------------------------------------------------


def _directory(name: str) -> Gathered:
    folder = Path(name)
    cells = read_cells(name)
    names: Sequence[str | None] = read_names(name) or [None] * len(cells)
    kept = []
    for cell, stem in zip(cells, names, strict=True):
        outcomes = None
        if stem is not None:
            # The figures are there all the same.
            with contextlib.suppress(OSError, ValueError):
                outcomes = read_outcomes(folder, stem)
        content = read_content(folder, stem) if stem is not None else None
        kept.append(Kept(cell, outcomes, content))
    traces = dict.fromkeys(cell.trace for cell in cells)
    facts = {trace: read_facts(folder, trace) for trace in traces}
    record = read_record(folder) or RunRecord()
    traffic = by_traffic(kept, facts, read_verdicts(folder), record.warm_up)
    return Gathered(
        traffic=traffic, token_bytes=record.token_bytes, sources=[Source(name, _told(record))]
    )


def _told(record: RunRecord) -> str:
    """What is known of a run, in a line."""
    command = " ".join(["kvframe", *record.command[1:]])
    unfinished = f"; {len(record.unfinished)} cells not run" if record.unfinished else ""
    parts = (f"kvframe {record.kvframe}", record.date, command)
    return ", ".join(part for part in parts if part) + unfinished


class _Any(msgspec.Struct, frozen=True):
    cells: list[dict[str, object]] = []
    curves: list[object] = []
    settings: list[object] = []
    differences: list[object] = []


def _json(name: str, data: bytes) -> Gathered:
    try:
        found = msgspec.json.decode(data, type=_Any)
        if found.settings or found.differences:
            of = "tune" if found.settings else "compare"
            raise ConfigError(
                f"{name}: is of `kvframe bench {of}`, which has no chart: must be {WHAT}"
            )
        if found.curves:
            curve = msgspec.json.decode(data, type=CurveResult)
            return Gathered(curves=[curve], sources=[Source(name, "curves")])
        if found.cells and "time_factor" in found.cells[0]:
            return _servers(name, msgspec.json.decode(data, type=ServerResult))
        cells, verdicts = decode_cells(data, name), decode_verdicts(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: must be {WHAT}: {error}") from None
    traffic: list[Traffic] = by_traffic([Kept(cell) for cell in cells], {}, verdicts)
    return Gathered(traffic=traffic, sources=[Source(name, "figures of replays")])


# --- servers --------------------------------------------------------------------------------------


def _servers(name: str, found: ServerResult) -> Gathered:
    cells: list[ServerCell] = [cell for cell in found.cells if cell.time_factor == 1.0]
    return Gathered(
        servers=cells,
        sentences=found.verdicts,
        host_sentences=found.tier_verdicts,
        remarks=found.remarks,
        token_bytes=found.token_bytes,
        sources=[Source(name, "simulated servers")],
    )


def _rows(name: str, data: bytes) -> Iterator[RequestRow]:
    """Rows of ``--requests``, CSV or JSON lines."""
    try:
        if data.lstrip()[:1] == b"{":
            decoder = msgspec.json.Decoder(RequestRow)
            yield from map(decoder.decode, filter(None, data.splitlines()))
            return
        lines = csv.DictReader(io.StringIO(data.decode()))
        if list(lines.fieldnames or ()) != list(RequestRow.__struct_fields__):
            raise ConfigError(f"{name}: must be {WHAT}")
        for row in lines:
            told: dict[str, object] = {
                key: value if value != "" else None for key, value in row.items()
            }
            told["tier_tokens"] = msgspec.json.decode(row["tier_tokens"])
            yield msgspec.convert(told, RequestRow, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{name}: must be {WHAT}: {error}") from None
