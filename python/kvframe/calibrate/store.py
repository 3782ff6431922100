"""A profile as a TOML file, with where it was measured and how far it was off."""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from kvframe.calibrate.profile import KNOTS, Profile, Steps
from kvframe.errors import UsageError
from kvframe.spelling import did_you_mean

SHIPPED = {"h200-8b": Path(__file__).with_name("h200-8b.toml")}
"""Profiles that come with kvframe, by name: a card and a model's shape."""


@dataclass(frozen=True)
class Measured:
    """Where and when the steps were measured.

    Attributes:
        card: As the driver names it.
        driver: Its version.
        software: What ran the steps, with versions.
        date: ISO 8601.
        command: What measured them.
    """

    card: str = ""
    driver: str = ""
    software: str = ""
    date: str = ""
    command: str = ""


def card_of(path: Path) -> str:
    """The card that a profile was measured on, as the driver names it; empty where it is not said.

    Raises:
        OSError: The file cannot be read.
    """
    mark = "# card: "
    with path.open(encoding="utf-8", errors="replace") as file:
        found = (line.removeprefix(mark).strip() for line in file if line.startswith(mark))
        return next(found, "")


def accuracy(profile: Profile, steps: Steps) -> str:
    """The relative errors of a profile over steps, in words."""
    errors = np.abs(profile.errors(steps)) * 100
    return (
        f"{len(errors)} steps: median error {np.median(errors):.1f} %, "
        f"90th percentile {np.percentile(errors, 90):.1f} %, worst {errors.max():.1f} %"
    )


def write_profile(
    path: Path, profile: Profile, measured: Measured, fitted: Steps | None, judged: Steps | None
) -> None:
    """Writes a profile, what measured it, and its errors over steps fitted and steps held out.

    ``fitted`` is None where it was fitted to something else than steps.
    """
    lines = ["# Microseconds of what a step of a server does; a step takes their sum."]
    lines += [f"# {name}: {value}" for name, value in asdict(measured).items() if value]
    if fitted is not None:
        lines.append(f"# fitted to {accuracy(profile, fitted)}")
    if judged is not None:
        lines.append(f"# not fitted to {accuracy(profile, judged)}")
    lines += [
        "",
        "# Any step: the weights are read, the kernels start.",
        f"fixed = {profile.fixed:.6g}",
        f"# Each further token computed, from 0 on and from {_knots(profile)} on.",
        f"tokens = [{', '.join(f'{value:.6g}' for value in profile.tokens)}]",
        "# Each decoding sequence, and each token that it attends to.",
        f"sequence = {profile.sequence:.6g}",
        f"kv_token = {profile.kv_token:.6g}",
        "# Each pair of a prompt token and a token that it attends to.",
        f"pair = {profile.pair:.6g}",
        "# The host, beside the card. A server's own scheduling comes on top.",
        f"host = {profile.host:.6g}",
    ]
    if profile.knots != KNOTS:
        lines += ["# Where the time of a further token changes.", f"knots = [{_knots(profile)}]"]
    if profile.mixed:
        lines.append(
            "# Each pair of a token computed and a token that decoding sequences attend to."
        )
        lines.append(f"mixed = {profile.mixed:.6g}")
    path.write_text("\n".join(lines) + "\n")


def _knots(profile: Profile) -> str:
    return ", ".join(f"{knot:g}" for knot in profile.knots)


def read_profile(path: Path) -> Profile:
    """A profile that `write_profile` wrote, or one written by hand.

    Raises:
        UsageError: It is no TOML, a key is unknown or missing, or a value is not 0 or more.
    """
    try:
        found = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    known = [field.name for field in fields(Profile)]
    for key in found:
        if key not in known:
            raise UsageError(f"{path}: no key {key}{did_you_mean(key, known)}")
    needed = [key for key in known if key not in ("knots", "mixed")]
    for key in needed:
        if key not in found:
            raise UsageError(f"{path}: {key} is missing; needs {', '.join(needed)}")
    knots = _numbers(path, "knots", found.pop("knots", list(KNOTS)))
    if list(knots) != sorted(set(knots)):
        raise UsageError(f"{path}: knots = {list(knots)}: each must be larger than the one before")
    tokens = _numbers(path, "tokens", found.pop("tokens"))
    if len(tokens) != 1 + len(knots):
        raise UsageError(f"{path}: tokens = {list(tokens)}: must be {1 + len(knots)} numbers")
    values = {key: _number(path, key, value) for key, value in found.items()}
    return Profile(tokens=tokens, knots=knots, **values)


def _numbers(path: Path, key: str, given: object) -> tuple[float, ...]:
    if not isinstance(given, list):
        raise UsageError(f"{path}: {key} = {given}: must be a list of numbers")
    return tuple(_number(path, key, value) for value in given)


def _number(path: Path, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"{path}: {key} = {value}: must be a number, 0 or more, in microseconds")
    return float(value)
