"""What a link carries: ``50GB/s``, and what a transfer takes besides: ``20us``."""

from __future__ import annotations

from kvframe.bench.server.durations import parse_time
from kvframe.config import rates
from kvframe.errors import ConfigError


def parse_rate(text: str, where: str) -> float:
    """Bytes a second.

    Raises:
        ConfigError: No size above 0, or no ``/s``; begins with ``where``.
    """
    rate = rates.parse_rate(text)
    if rate is None:
        near = rates.near_rate(text)
        raise ConfigError(f"{where} = {text}: must be bytes a second, such as 50GB/s{near}")
    return rate


def parse_latency(text: str, where: str) -> float:
    """Seconds; raises as `parse_time` does."""
    return parse_time(text, f"{where} = {text}", such_as="20us or 1ms")
