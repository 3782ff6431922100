"""Which program replays: kvframe's version and its compiled core."""

import hashlib
from pathlib import Path

from kvframe import _core


def build_name() -> str:
    """``"0.1.0+1f0c..."``: the version, and the start of the core library's SHA-256.

    Two builds of one version may differ. A kept cell of another build is not reused.
    """
    file = getattr(_core, "__file__", None)
    if file is None:
        return str(_core.__version__)
    return f"{_core.__version__}+{hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]}"


def debug_warning() -> str | None:
    """One line when the core was built without optimisation, else None."""
    if _core.build_profile() == "debug":
        return (
            "kvframe._core is a debug build: its speeds mean nothing (`make setup` builds release)"
        )
    return None
