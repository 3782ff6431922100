"""What users were promised: ``ttft=2s,itl=50ms``."""

from __future__ import annotations

from typing import NamedTuple

from kvframe.bench.options import keyed
from kvframe.bench.server.durations import parse_time
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean


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
