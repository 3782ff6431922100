"""What the commands here write down: what was found, when, by which command and versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VERSIONS = ("vllm", "kvframe", "kvframe-vllm")


def place(name: str) -> Path:
    """The record of that name, in the folder where the command is called."""
    return Path("results") / f"{name}.json"


def write(file: Path, command: str, **found: Any) -> None:
    """Write the record of ``python -m kvframe_vllm.command``."""
    record = {
        "date": datetime.date.today().isoformat(),
        "command": " ".join([f"python -m kvframe_vllm.{command}", *sys.argv[1:]]),
        "python": platform.python_version(),
        "load average": [round(each, 1) for each in os.getloadavg()],
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
        **found,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def fail_if(missed: Sequence[str]) -> None:
    """End the command where it has missed a bar, or found what may not be.

    Raises:
        SystemExit: It has; a line for each.
    """
    if missed:
        raise SystemExit("\n".join(["missed:", *missed]))
