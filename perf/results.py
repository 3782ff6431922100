"""Result files: perf/results/DATE-WHAT.json, with the machine, the versions and the command."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kvframe.bench.build import build_name, debug_warning
from kvframe.bench.results import machine, now

FOLDER = Path(__file__).parent / "results"


def warn_debug() -> None:
    """Say on stderr if the core is a debug build."""
    if warning := debug_warning():
        print(f"warning: {warning}", file=sys.stderr)


def save(what: str, peers: list[str], rows: Any, **more: Any) -> Path:
    """Write what was measured; answers the file.

    Args:
        what: Part of the file's name: core, replay, policies.
        peers: Names and versions of the peers measured beside.
        rows: The measurements.
        **more: Whatever else says how they were made.
    """
    date = now()
    record = {
        "what": what,
        "date": date,
        "command": " ".join(["python", "-m", f"perf.{what}", *sys.argv[1:]]).replace(
            str(Path.home()), "~"
        ),
        "machine": machine(),
        "load_average": list(os.getloadavg()),
        "versions": {"kvframe": build_name(), "numpy": version("numpy"), "peers": peers},
        **more,
        "rows": rows,
    }
    file = FOLDER / f"{date[:10]}-{what}.json"
    FOLDER.mkdir(exist_ok=True)
    file.write_text(json.dumps(record, indent=2) + "\n")
    return file
