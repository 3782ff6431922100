"""What a link carries, ``50 GB/s``, and times with their unit: ``2s``, ``50ms``, ``20us``."""

from __future__ import annotations

import re

from kvframe.config.sizes import near_bytes, parse_bytes

_RATE = re.compile(r"(.*[A-Za-z])\s*/\s*s\s*")
_TIME = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]+)?)\s*(us|ms|s)\s*")
_IN_A_SECOND = {"us": 1_000_000, "ms": 1_000, "s": 1}


def parse_rate(text: str) -> float | None:
    """The bytes a second that ``"50 GB/s"`` means; None if ``text`` is no size above 0, or has no
    ``/s``.
    """
    found = _RATE.fullmatch(text)
    size = parse_bytes(found[1]) if found else None
    return float(size) if size else None


def near_rate(text: str) -> str:
    """``"; did you mean 40 GB/s?"`` for a text that is no rate, or an empty string."""
    if parse_bytes(text):
        return f"; did you mean {text}/s?"
    found = _RATE.fullmatch(text)
    near = near_bytes(found[1]) if found else ""
    return f"{near.removesuffix('?')}/s?" if near else ""


def parse_time(text: str) -> float | None:
    """Seconds; None if ``text`` has no number or no unit."""
    found = _TIME.fullmatch(text)
    return float(found[1]) / _IN_A_SECOND[found[2]] if found else None
