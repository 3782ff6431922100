"""The result directory: every finished cell in a file of its own, and a record of the last run.

::

    DIR/run.json            machine, versions, seed, command, date, traces, the run's cells
    DIR/cells/<hash>.json   {"identity": ..., "measured": ..., "cell": ...}
    DIR/results.json        the run's cells in the form of ``--format json``

Files appear whole or not at all, so a kill at any moment leaves a directory that can go on.
"""

import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvframe.bench.cells import Cell, Plan, identity_hash
from kvframe.bench.traces import read_stdin
from kvframe.errors import ConfigError, TraceError
from kvframe.files import RESULT_BYTES, read_regular, read_stream


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

    def __init__(self, folder: Path, build: str) -> None:
        """Make ``folder`` where it is missing.

        Args:
            folder: the result directory.
            build: names the replaying program; see `CopyPlan.identity`.

        Raises:
            ConfigError: the folder cannot be made or written to.
        """
        self.folder = folder
        self._build = build
        self._measured: dict[str, object] = {"date": now(), "machine": machine()}
        try:
            (folder / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--out {folder}: {error.strerror}") from None
        if not os.access(folder / "cells", os.W_OK):
            raise ConfigError(f"--out {folder}: not writable")

    def path(self, plan: Plan) -> Path:
        """The path of a plan's cell, whether or not the file exists."""
        return self.folder / "cells" / f"{identity_hash(plan.identity(self._build))}.json"

    def load(self, plan: Plan) -> Cell | None:
        """The kept cell of a plan, or None; a damaged file counts as none and is written anew."""
        try:
            kept = msgspec.json.decode(read_regular(self.path(plan), RESULT_BYTES), type=_Kept)
        except (OSError, msgspec.DecodeError, RecursionError):
            return None
        if kept.identity != plan.identity(self._build):
            return None
        # The same bytes may have been reached by another name since.
        names = {"trace": plan.source.name, "policy": plan.label}
        return msgspec.structs.replace(kept.cell, **names)

    def save(self, plan: Plan, cell: Cell) -> None:
        """Keep a finished cell."""
        kept = _Kept(plan.identity(self._build), self._measured, cell)
        self._write(self.path(plan), kept)

    def finish(self, record: dict[str, object], cells: list[Cell]) -> None:
        """Write the record and the cells of this run."""
        self._write(self.folder / "run.json", {**record, **self._measured})
        self._write(self.folder / "results.json", {"cells": cells})

    def _write(self, path: Path, value: object) -> None:
        try:
            write_atomic(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n")
        except OSError as error:
            raise ConfigError(f"--out {path}: {error.strerror}") from None


class _Kept(msgspec.Struct, frozen=True):
    identity: dict[str, object]
    measured: dict[str, object]
    cell: Cell


class _Cells(msgspec.Struct, frozen=True):
    cells: list[Cell]


def read_cells(where: str) -> list[Cell]:
    """Cells of a result directory, of a JSON file of ``--format json``, or of stdin (``-``).

    Raises:
        ConfigError: nothing there, or no such file; one line with the path.
    """
    path = Path(where)
    try:
        if where == "-":
            return msgspec.json.decode(read_stdin(), type=_Cells).cells
        if path.is_dir():
            path = path / "results.json"
        cells = msgspec.json.decode(read_stream(path, RESULT_BYTES), type=_Cells).cells
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except TraceError:  # of stdin; it is a ValueError, too
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not the JSON of `kvframe bench run`: {error}") from None
    if not cells:
        raise ConfigError(f"{path}: holds no cell")
    return cells


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
