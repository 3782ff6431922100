"""Tokens of answers that are drafted, and verified in the next step: what was asked for."""

from __future__ import annotations

from typing import NamedTuple

from kvframe.bench.options import keyed
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean


class Speculation(NamedTuple):
    """How answers are drafted.

    Attributes:
        tokens: Drafts of a sequence in a step, at most.
        accept: How likely a draft is right if those before it are.
        cost: What drafting one for all sequences takes, as a share of the step that verifies it.
    """

    tokens: int
    accept: float
    cost: float = 0.0


def parse_speculation(text: str) -> Speculation:
    """``tokens=3,accept=0.7,cost=0.05``.

    Raises:
        ConfigError: An unknown key, one that is missing, or an impossible value.
    """
    where = f"--speculate {text}"
    given = keyed(text.split(","), where)
    for key in given:
        if key not in Speculation._fields:
            known = ", ".join(Speculation._fields)
            near = did_you_mean(key, Speculation._fields)
            raise ConfigError(f"{where}: no key {key}: {known}{near}")
    for key in ("tokens", "accept"):
        if key not in given:
            raise ConfigError(f"{where}: {key} is missing")
    tokens = str(given["tokens"])
    if not tokens.isdecimal() or not 1 <= int(tokens) <= 64:
        raise ConfigError(f"{where}: tokens = {tokens}: must be a whole number from 1 to 64")
    accept = _share(given["accept"], f"{where}: accept", 1.0)
    return Speculation(int(tokens), accept, _share(given.get("cost", "0"), f"{where}: cost", 10.0))


def _share(text: str, where: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise ConfigError(f"{where} = {text}: must be a number from 0 to {most:g}")
    return value
