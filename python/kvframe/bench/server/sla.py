"""What users were promised: ``ttft=2s,itl=50ms``."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvframe.bench.options import keyed
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")


class Sla(NamedTuple):
    """The most that a request may take, in seconds; None where nothing was promised.

    Attributes:
        ttft: From arrival to the first token.
        itl: From token to token, on the mean of the request.
        e2e: From arrival to the last token.
    """

    ttft: float | None = None
    itl: float | None = None
    e2e: float | None = None


def parse_sla(text: str) -> Sla:
    """The promises of ``--sla``.

    Raises:
        ConfigError: An unknown promise, or a time without a unit.
    """
    promised: dict[str, float] = {}
    for key, value in keyed(text.split(","), f"--sla {text}").items():
        if key not in Sla._fields:
            near = did_you_mean(key, Sla._fields)
            raise ConfigError(f"--sla {text}: no promise {key}: ttft, itl or e2e{near}")
        promised[key] = parse_time(str(value), f"--sla {text}: {key} = {value}")
    return Sla(**promised)


def parse_time(text: str, where: str) -> float:
    """Seconds of ``2s`` or ``50ms``.

    Raises:
        ConfigError: No number, or no unit; begins with ``where``.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConfigError(f"{where}: must be a time such as 2s or 50ms")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)
