"""Values as TOML writes them, for messages and for ``kvframe check``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml(value: object) -> str:
    """``value`` on one line of TOML; what TOML cannot write is shown as Python does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
        # A lone surrogate can be neither printed nor sent: it is shown by its number.
        return text.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key(str(name))} = {toml(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    try:
        return " ".join(str(value).split())
    except ValueError:  # Python writes no integer of more than 4,300 digits
        bits = value.bit_length() if isinstance(value, int) else 0
        return f"an integer of {bits} bits" if bits else f"a {type(value).__name__}"


def key(name: str) -> str:
    """``name`` as a TOML key: bare where TOML allows it, else quoted."""
    return name if _BARE_KEY.fullmatch(name) else toml(name)


def brief(value: object) -> str:
    """`toml`, cut short for a message."""
    return cut(toml(value), 60)


def cut(text: str, most: int = 200) -> str:
    """``text``, and of a long one the start."""
    return text if len(text) <= most else text[: most - 3] + "..."
