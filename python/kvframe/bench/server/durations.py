"""Times with their unit: ``2s``, ``50ms``, ``20us``."""

from __future__ import annotations

import re

from kvframe.errors import ConfigError

_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s)\s*")
_IN_A_SECOND = {"us": 1_000_000, "ms": 1_000, "s": 1}


def parse_time(text: str, where: str, such_as: str = "2s or 50ms") -> float:
    """Seconds.

    Raises:
        ConfigError: No number, or no unit; begins with ``where``, and shows times ``such_as`` are
            usual there.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConfigError(f"{where}: must be a time such as {such_as}")
    return float(found[1]) / _IN_A_SECOND[found[2]]
