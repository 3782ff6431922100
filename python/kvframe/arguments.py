"""Arguments of any kind: what they are, and how a message shows them."""

from __future__ import annotations

import numpy as np


def shown(value: object) -> str:
    """A value for a message: on one line, and cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 80 else f"{text[:80]}..."


def is_int(value: object) -> bool:
    """Whether it is an integer of Python or NumPy, a span of time apart."""
    return isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64)
