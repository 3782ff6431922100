"""``python -m tests.policies.record PYTHON``: writes libcachesim.json anew.

PYTHON is an interpreter that has libcachesim (``pip install libcachesim==0.3.5``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from perf.zoo import LIBCACHESIM

from .streams import CAPACITIES, next_uses, stream

HERE = Path(__file__).parent
RECORD = HERE / "libcachesim.json"


def main(python: str) -> None:
    streams = {}
    for name, capacities in CAPACITIES.items():
        ids = stream(name)
        cells = dict.fromkeys(LIBCACHESIM.values(), capacities)
        job = {"ids": ids, "next": next_uses(ids), "cells": cells}
        command = [python, str(HERE / "side.py")]
        ran = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True)
        if ran.returncode:
            sys.exit(ran.stderr)
        got = json.loads(ran.stdout)
        misses = {
            ours: dict(zip(map(str, capacities), got["cells"][theirs], strict=True))
            for ours, theirs in LIBCACHESIM.items()
        }
        streams[name] = {"accesses": len(ids), "misses": misses}
    record = {
        "libcachesim": got["version"],
        "command": "python -m tests.policies.record PYTHON",
        "streams": streams,
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
