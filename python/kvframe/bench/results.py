"""The result directory: every finished cell in a file of its own, and a record of the last run.

::

    DIR/run.json              machine, versions, seed, command, date, traces, the run's cells
    DIR/cells/<hash>.json     {"identity": ..., "measured": ..., "cell": ...}
    DIR/requests/<hash>.npz   that cell's outcomes by request (`kvframe.bench.outcomes`)
    DIR/content/<hash>.npz    what the cache held over time (`kvframe.bench.content`)
    DIR/traces/<sha256>.npz   the facts of a trace's requests: prompt tokens, sessions, arrivals
    DIR/results.json          the run's cells in the form of ``--format json``

Files appear whole or not at all, so a kill at any moment leaves a directory that can go on.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvframe.bench.cells import Cell, Measured, Plan, identity_hash
from kvframe.bench.content import Content
from kvframe.bench.outcomes import RequestFacts, RequestOutcomes
from kvframe.bench.traces import read_stdin
from kvframe.bench.verdict import Verdict
from kvframe.errors import ConfigError
from kvframe.files import RESULT_BYTES, read_regular, read_stream

SCHEMA = "kvframe-bench-2"
"""Of results.json, which docs/reference/bench.md describes."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``path`` whole: into a file beside it, then renamed over it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes the file private; results are as public as the umask lets any file be.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def machine() -> dict[str, object]:
    """What the timings depend on: processor, cores, memory, system, Python."""
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class ResultStore:
    """Finished cells of one directory, found again by what decides their numbers."""

    def __init__(self, folder: Path, build: str, *, content: bool = False) -> None:
        """Make ``folder`` where it is missing.

        Args:
            content: Whether a cell counts as kept only together with what the cache held.
            folder: the result directory.
            build: Names the replaying program; see `kvframe.bench.cells.Plan.identity`.

        Raises:
            ConfigError: the folder cannot be made or written to.
        """
        self.folder = folder
        self._build, self._content = build, content
        self._traces: set[str] = set()
        self._measured: dict[str, object] = {"date": now(), "machine": machine()}
        try:
            for name in ("cells", "requests", "traces", *(("content",) if content else ())):
                (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--out {folder}: {error.strerror}") from None
        if not os.access(folder / "cells", os.W_OK):
            raise ConfigError(f"--out {folder}: not writable")

    def path(self, plan: Plan) -> Path:
        """The path of a plan's cell, whether or not the file exists."""
        return self.folder / "cells" / f"{identity_hash(plan.identity(self._build))}.json"

    def load(self, plan: Plan) -> Measured | None:
        """The kept cell of a plan, or None; a damaged file counts as none and is written anew."""
        path = self.path(plan)
        try:
            kept = msgspec.json.decode(read_regular(path, RESULT_BYTES), type=_Kept)
            outcomes = read_outcomes(self.folder, path.stem)
        except (OSError, ValueError, RecursionError):
            return None
        if kept.identity != plan.identity(self._build):
            return None
        content = read_content(self.folder, path.stem) if self._content else None
        if self._content and content is None:
            return None
        # The same bytes may have been reached by another name since.
        names = {"trace": plan.source.name, "policy": plan.label}
        return Measured(msgspec.structs.replace(kept.cell, **names), outcomes, content)

    def save(self, plan: Plan, measured: Measured) -> None:
        """Keep a finished cell, and before it the outcomes of its requests."""
        path = self.path(plan)
        facts = self.folder / "traces" / f"{plan.source.sha256}.npz"
        if facts.stem not in self._traces:  # One that lies there may be of another version.
            self._traces.add(facts.stem)
            self._put(facts, plan.source.facts.pack())
        self._put(self.folder / "requests" / f"{path.stem}.npz", measured.outcomes.pack())
        if measured.content is not None:
            self._put(self.folder / "content" / f"{path.stem}.npz", measured.content.pack())
        self._write(path, _Kept(plan.identity(self._build), self._measured, measured.cell))

    def finish(
        self, record: dict[str, object], cells: Mapping[Plan, Cell], verdicts: Sequence[object]
    ) -> None:
        """Write the record, and the cells and verdicts of this run; each cell says whose outcomes
        by request are its.
        """
        self._write(self.folder / "run.json", {**record, **self._measured})
        names = [self.path(plan).stem for plan in cells]
        told = {
            "schema": SCHEMA,
            "cells": list(cells.values()),
            "requests": names,
            "verdicts": verdicts,
        }
        self._write(self.folder / "results.json", told)

    def _write(self, path: Path, value: object) -> None:
        self._put(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n")

    def _put(self, path: Path, data: bytes) -> None:
        try:
            write_atomic(path, data)
        except OSError as error:
            raise ConfigError(f"--out {path}: {error.strerror}") from None


def read_outcomes(folder: Path, name: str) -> RequestOutcomes:
    """The kept outcomes of a cell.

    Args:
        folder: The result directory.
        name: The hash of the cell's identity.

    Raises:
        OSError: There are none.
        ValueError: They are damaged.
    """
    path = folder / "requests" / f"{name}.npz"
    return RequestOutcomes.unpack(read_regular(path, RESULT_BYTES))


def read_content(folder: Path, name: str) -> Content | None:
    """What the cache of a cell held over time, or None: what is damaged counts as none."""
    try:
        return Content.unpack(read_regular(folder / "content" / f"{name}.npz", RESULT_BYTES))
    except (OSError, ValueError):
        return None


def read_facts(folder: Path, trace: str) -> RequestFacts | None:
    """The kept facts of a trace's requests, or None: damaged ones count as none."""
    try:
        record = read_record(folder)
        if record is None:
            return None
        path = folder / "traces" / f"{record.traces[trace].sha256}.npz"
        return RequestFacts.unpack(read_regular(path, RESULT_BYTES))
    except (OSError, ValueError, KeyError):
        return None


def read_record(folder: Path) -> RunRecord | None:
    """The record of the last run of a directory, or None: a damaged one counts as none."""
    try:
        return msgspec.json.decode(read_regular(folder / "run.json", RESULT_BYTES), type=RunRecord)
    except (OSError, ValueError, RecursionError):
        return None


def read_names(where: str) -> list[str] | None:
    """Whose outcomes by request the cells of a result directory have, in their order; None of other
    results.
    """
    try:
        path = Path(where) / "results.json"
        return msgspec.json.decode(read_regular(path, RESULT_BYTES), type=_Names).requests
    except (OSError, ValueError, RecursionError):
        return None


class _Saved(msgspec.Struct, frozen=True):
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"schema = {self.schema!r}: this kvframe reads {SCHEMA!r}")


class _Names(_Saved, frozen=True, kw_only=True):
    requests: list[str]


class _Trace(msgspec.Struct, frozen=True):
    sha256: str


class RunRecord(msgspec.Struct, frozen=True):
    """What others need of DIR/run.json, which docs/reference/bench.md describes.

    Attributes:
        traces: By name.
        kvframe: The build.
        command: The command line.
        date: As ISO 8601, in UTC.
        warm_up: The share of requests that intervals do not count.
        token_bytes: Bytes of a token's KV, where ``--model-shape`` was given.
        unfinished: Cells that did not run.
    """

    traces: dict[str, _Trace] = {}
    kvframe: str = ""
    command: list[str] = []
    date: str = ""
    warm_up: float = 0.0
    token_bytes: int | None = None
    unfinished: list[str] = []


class _Kept(msgspec.Struct, frozen=True):
    identity: dict[str, object]
    measured: dict[str, object]
    cell: Cell


class _Cells(_Saved, frozen=True, kw_only=True):
    cells: list[Cell]


class _Verdicts(_Saved, frozen=True):
    verdicts: list[Verdict] = []


def read_cells(where: str) -> list[Cell]:
    """Cells of a result directory, of a JSON file of ``--format json``, or of stdin (``-``).

    Raises:
        ConfigError: nothing there, or no such file; one line with the path.
    """
    path = Path(where)
    try:
        if where == "-":
            return decode_cells(read_stdin(), "<stdin>")
        if path.is_dir():
            path = path / "results.json"
        return decode_cells(read_stream(path, RESULT_BYTES), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def decode_cells(data: bytes, name: str) -> list[Cell]:
    """The cells of the JSON of ``--format json``, called ``name``.

    Raises:
        ConfigError: It is something else, or has no cell.
    """
    try:
        cells = msgspec.json.decode(data, type=_Cells).cells
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not the JSON of `kvframe bench run`: {error}") from None
    if not cells:
        raise ConfigError(f"{name}: holds no cell")
    return cells


def read_verdicts(folder: Path) -> list[Verdict]:
    """The verdicts of a result directory; none where they are damaged."""
    try:
        return decode_verdicts(read_regular(folder / "results.json", RESULT_BYTES))
    except OSError:
        return []


def decode_verdicts(data: bytes) -> list[Verdict]:
    """The verdicts in the JSON of ``--format json``; none where there are none of today's form."""
    try:
        return msgspec.json.decode(data, type=_Verdicts).verdicts
    except (ValueError, RecursionError):
        return []


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
