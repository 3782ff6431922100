"""Times with their unit: ``2s``, ``50ms``, ``20us``."""

from __future__ import annotations

from kvframe.config import rates
from kvframe.errors import ConfigError


def parse_time(text: str, where: str, such_as: str = "2s or 50ms") -> float:
    """Seconds.

    Raises:
        ConfigError: No number, or no unit; begins with ``where``, and shows times ``such_as`` are
            usual there.
    """
    seconds = rates.parse_time(text)
    if seconds is None:
        raise ConfigError(f"{where}: must be a time such as {such_as}")
    return seconds
