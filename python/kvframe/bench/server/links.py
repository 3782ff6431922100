"""What a link carries: ``50GB/s``, and what a transfer takes besides: ``20us``."""

from __future__ import annotations

import re

from kvframe.config.sizes import near_bytes, parse_bytes
from kvframe.errors import ConfigError

_RATE = re.compile(r"(.*[A-Za-z])\s*/\s*s\s*")
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s)\s*")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_rate(text: str, where: str) -> float:
    """Bytes a second.

    Raises:
        ConfigError: No size above 0, or no ``/s``; begins with ``where``.
    """
    found = _RATE.fullmatch(text)
    size = parse_bytes(found[1]) if found else None
    if not size:
        near = near_bytes(found[1]) if found else ""
        raise ConfigError(f"{where} = {text}: must be bytes a second, such as 50GB/s{near}")
    return float(size)


def parse_latency(text: str, where: str) -> float:
    """Seconds.

    Raises:
        ConfigError: No number, or no unit; begins with ``where``.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConfigError(f"{where} = {text}: must be a time such as 20us or 1ms")
    return float(found[1]) * _SECONDS[found[2]]
