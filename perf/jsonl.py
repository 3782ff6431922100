"""A trace written as Mooncake JSONL, for programs that read no other form."""

from __future__ import annotations

import json
from pathlib import Path

from kvframe import _core


def write_jsonl(trace: _core.Trace, file: Path) -> None:
    """Write ``trace``, ids renamed to prefix nodes: equal ids still mean equal prefixes."""
    with file.open("w", encoding="utf-8") as out:
        for i in range(trace.requests):
            timestamp, input_length, output_length, session, ids = trace.request(i)
            row = {
                "timestamp": timestamp,
                "input_length": input_length,
                "output_length": output_length,
                "hash_ids": ids,
            }
            if session is not None:
                row["session_id"] = session
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
