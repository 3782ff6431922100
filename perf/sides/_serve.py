"""What every side has in common: a line of JSON in, a line of JSON out. Needs only Python."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def serve(peer: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Name the peer, then answer requests until the input ends."""
    # What the peer prints itself must not get between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(value: dict[str, Any]) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    say({"peer": peer})
    for line in sys.stdin:
        say(answer(json.loads(line)))
