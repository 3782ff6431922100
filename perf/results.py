"""What measurements are asked with, and their files: perf/results/DATE-WHAT.json."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kvframe.bench.build import build_name, debug_warning
from kvframe.bench.results import machine, now

FOLDER = Path(__file__).parent / "results"
Record = dict[str, Any]


def warn_debug() -> None:
    """Say on stderr if the core is a debug build."""
    if warning := debug_warning():
        print(f"warning: {warning}", file=sys.stderr)


def command_line(
    what: str, about: str | None, prints: str, rounds: int = 5
) -> argparse.ArgumentParser:
    """What a measurement is asked with: for JSON, how many rounds, how large, and to be kept.

    Args:
        what: The module's name in perf.
        about: Its docstring.
        prints: What ``--json`` prints.
        rounds: How many, if it is not said.
    """
    parser = argparse.ArgumentParser(prog=f"python -m perf.{what}", description=about)
    parser.add_argument("--json", action="store_true", help=f"print {prints}")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all")
    parser.add_argument("--save", action="store_true", help=f"write perf/results/DATE-{what}.json")
    return parser


def command(what: str) -> str:
    """The command of this process, with the home folder as ``~``."""
    asked = " ".join(["python", "-m", f"perf.{what}", *sys.argv[1:]])
    return asked.replace(str(Path.home()), "~")


def head(what: str, **versions: Any) -> dict[str, Any]:
    """What a record begins with: where and when, by which command, and versions beside NumPy's."""
    return {
        "what": what,
        "date": now(),
        "command": command(what),
        "machine": machine(),
        "load_average": list(os.getloadavg()),
        "versions": {"kvframe": build_name(), "numpy": version("numpy"), **versions},
    }


def records(what: str) -> list[Record]:
    """What was saved under that name, the newest first."""
    files = sorted(FOLDER.glob(f"*-{what}.json"), reverse=True)
    return [json.loads(file.read_text("utf-8")) for file in files]


def last_record(what: str) -> Record:
    """What the last run saved.

    Raises:
        SystemExit: There is no record.
    """
    for record in records(what):
        return record
    raise SystemExit(f"perf.{what}: there is no record in perf/results")


def save(what: str, peers: list[str], rows: Any, **more: Any) -> Path:
    """Write what was measured; answers the file.

    Args:
        what: Part of the file's name: core, replay, policies.
        peers: Names and versions of the peers measured beside.
        rows: The measurements.
        **more: Whatever else says how they were made.
    """
    record = {**head(what, peers=peers), **more, "rows": rows}
    file = FOLDER / f"{record['date'][:10]}-{what}.json"
    FOLDER.mkdir(exist_ok=True)
    file.write_text(json.dumps(record, indent=2) + "\n")
    return file
