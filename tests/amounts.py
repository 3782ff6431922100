"""How much the random tests try: the same part each time in `make test`, all in `make test-all`."""

from __future__ import annotations

import os

ALL = os.environ.get("KVFRAME_TESTS") == "all"


def amount(part: int, whole: int, variable: str = "") -> int:
    """Cases to try: what the environment's ``variable`` says, else ``whole`` or a ``part``."""
    return int(os.environ.get(variable) or (whole if ALL else part))


def first_seed() -> int:
    """The first of a random test's seeds. `make soak` draws another each time."""
    return int(os.environ.get("KVFRAME_SEED", "0"))
