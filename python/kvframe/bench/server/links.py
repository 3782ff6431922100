"""What a link carries: ``50GB/s``, and what a transfer takes besides: ``20us``."""

from __future__ import annotations

import re

from kvframe.bench.server.durations import parse_time
from kvframe.config.sizes import near_bytes, parse_bytes
from kvframe.errors import ConfigError

_RATE = re.compile(r"(.*[A-Za-z])\s*/\s*s\s*")


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
    """Seconds; raises as `parse_time` does."""
    return parse_time(text, f"{where} = {text}", such_as="20us or 1ms")
