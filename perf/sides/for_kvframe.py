"""Another build of kvframe, with the works of its own checkout. Run by `perf.peers.Peer`.

Its argument is that checkout: whatever its verbs are called there, a work means the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from _serve import serve

CHECKOUT = sys.argv[1]
sys.path.insert(0, CHECKOUT)

from perf.core import WORKS  # noqa: E402

rounds: dict[str, Callable[[], float]] = {}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """A round of a work; None if that build has no such work."""
    name, quick = asked["work"], asked["quick"]
    if name not in rounds:
        for work in WORKS:
            if work.name == name:
                rounds.clear()
                rounds[name] = work.make(quick)
    return {"value": rounds[name]() if name in rounds else None}


head = ["git", "-C", CHECKOUT, "rev-parse", "--short", "HEAD"]
serve("kvframe " + subprocess.run(head, capture_output=True, text=True).stdout.strip(), answer)
