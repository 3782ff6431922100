"""How long a step takes: ``fixed``, ``roofline``, measured terms, or a table in a file.

``fixed:prefill=50000,decode_ms=20``: two rates, as the timed mode of `kvframe bench run` has them;
its server computes one prompt after the other. ``roofline:weights=1.43,kv=1.2,compute=1.5,
attention=2,host_us=200``: what a step reads and computes, at what the card's data sheet gives, each
times a factor, and the host's time. ``FILE.csv``: measured steps, with the columns num_tokens,
n_decode, kv_decode, prefill_chunk and step_us. ``h200-8b`` or ``FILE.toml``: terms that
`kvframe calibrate` fitted to measured steps.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from kvframe import _core
from kvframe.bench.options import NotNegative, OptionOrigins, Positive, keyed
from kvframe.bench.server.cards import Card
from kvframe.bench.server.layered import layered
from kvframe.bench.server.model import Model
from kvframe.bench.server.parallel import ALONE, Parallel
from kvframe.bench.server.shape import Served
from kvframe.calibrate import SHIPPED, card_of, read_profile
from kvframe.config.values import build
from kvframe.errors import ConfigError, UsageError
from kvframe.spelling import did_you_mean

COLUMNS = ("num_tokens", "n_decode", "kv_decode", "prefill_chunk", "step_us")
CONTEXT = "prefill_context"
"""A column that a table may have: tokens that each prompt token attended to, on the mean."""


class Profile(NamedTuple):
    """How long a step takes.

    Attributes:
        label: As it was asked for.
        steps: The same, for the core.
        is_fixed: Two rates, without steps.
        uses_card: Whether the card's data sheet and the model's shape decide.
        knows_drafts: Whether it says what verifying drafts takes.
        measured_on: The card whose steps it has; empty where it does not say.
    """

    label: str
    steps: _core.StepProfile
    is_fixed: bool = False
    uses_card: bool = False
    knows_drafts: bool = True
    measured_on: str = ""

    def is_of_another(self, card: Card) -> bool:
        """Whether its steps were measured on another card."""
        name = card.name.partition(":")[0].lower()
        return bool(self.measured_on) and name not in self.measured_on.lower()


class Fixed(Struct, frozen=True, forbid_unknown_fields=True):
    """``fixed``: tokens of prompts a second, and milliseconds a token of an answer."""

    prefill: Positive = 50_000.0
    decode_ms: NotNegative = 20.0


class Roofline(Struct, frozen=True, forbid_unknown_fields=True):
    """``roofline``: what each term takes, in times of its time by the data sheet.

    Those of ``weights`` and ``kv`` are what published tables of an H200 imply; the others are
    estimates.
    """

    weights: NotNegative = 1.43
    kv: NotNegative = 1.2
    compute: NotNegative = 1.5
    attention: NotNegative = 2.0
    host_us: Positive = 200.0

    def steps(
        self, card: Card, shape: Served, over: Parallel, *, cascade: bool
    ) -> _core.StepProfile:
        """The terms in seconds: of each card of a replica, all of which do the same.

        Raises:
            ConfigError: A model's file has a format that the card does not compute in.
        """
        if isinstance(shape, Model):
            return layered(self, card, shape, over, cascade=cascade)
        return _core.StepProfile.roofline(
            host=self.host_us / 1e6 + over.exchange_seconds(shape),
            weights=self.weights * over.weights(shape) / card.bandwidth,
            token=self.compute * 2 * shape.active_params / card.flops / over.cards,
            kv_token=self.kv
            * shape.token_bytes
            / card.bandwidth
            / shape.kv_ranks(over.tp)
            / over.dp,
            pair=self.attention * shape.pair_flops / card.flops / over.cards,
            exchange=over.token_seconds(shape),
            cascade=cascade,
        )


def parse_profile(
    text: str, card: Card, shape: Served, over: Parallel = ALONE, *, cascade: bool = False
) -> Profile:
    """The profile that ``--profile`` names; with ``cascade`` what all prompts of a step begin with
    is read once.

    Raises:
        ConfigError: An unknown profile or option, an impossible value, or a file that is no table;
            names the file and the line.
    """
    name, colon, given = text.partition(":")
    if over.cards > 1 and name != "roofline":
        raise ConfigError(
            f"--profile {text}: its times are of the cards that it was measured on: --parallel "
            "goes with roofline"
        )
    if cascade and name != "roofline":
        raise ConfigError(
            f"--cascade-attention: --profile {text} was measured without, or reads no KV: "
            "use roofline"
        )
    if name not in ("fixed", "roofline"):
        if Path(text).suffix == ".csv":
            return Profile(text, read_table(Path(text)), knows_drafts=False)
        if Path(text).suffix == ".toml" or text in SHIPPED:
            path = SHIPPED.get(text, Path(text))
            return Profile(text, _fitted(path), measured_on=card_of(path))
        known = ("fixed", "roofline", *SHIPPED)
        raise ConfigError(
            f"--profile {text}: must be {', '.join(known)}, FILE.csv or FILE.toml"
            f"{did_you_mean(name, known)}"
        )
    origins = OptionOrigins("--profile")
    values = keyed(given.split(","), f"--profile {text}") if colon else {}
    if name == "fixed":
        fixed = build(Fixed, values, name, origins)
        steps = _core.StepProfile.fixed(fixed.prefill, fixed.decode_ms / 1e3)
        return Profile(text, steps, is_fixed=True, knows_drafts=False)
    factors = build(Roofline, values, name, origins)
    try:
        steps = factors.steps(card, shape, over, cascade=cascade)
    except UsageError as error:  # numbers of which a product is infinite
        raise ConfigError(f"--profile {text}: of this card and --model-shape: {error}") from None
    return Profile(text, steps, uses_card=True)


def _fitted(path: Path) -> _core.StepProfile:
    try:
        return read_profile(path).for_core()
    except OSError as error:
        raise ConfigError(f"--profile {path}: {error.strerror}") from None
    except UsageError as error:
        raise ConfigError(str(error)) from None


def read_table(path: Path) -> _core.StepProfile:
    """A table of measured steps.

    Raises:
        ConfigError: The file cannot be read, lacks a column, or holds what is no measured step.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if lacking:
                raise ConfigError(
                    f"{path}:1: no column {lacking[0]}: must have {', '.join(COLUMNS)}"
                )
            given = (*COLUMNS, *(name for name in (CONTEXT,) if name in (reader.fieldnames or ())))
            rows = [_row(path, reader.line_num, row, given) for row in reader]
    except OSError as error:
        raise ConfigError(f"--profile {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--profile {path}: is not UTF-8 text") from None
    try:
        return _core.StepProfile.table(rows)
    except UsageError as error:
        steps = {row[:4] for row in rows}
        log = "; `kvframe calibrate --from` fits a log of steps" if len(steps) < len(rows) else ""
        raise ConfigError(f"{path}: {error}{log}") from None


def _row(
    path: Path, line: int, row: dict[str, str], given: Sequence[str]
) -> tuple[float, float, float, float, float]:
    numbers = {CONTEXT: 0.0}
    for name in given:
        try:
            numbers[name] = msgspec.convert(row[name], float, strict=False)
        except msgspec.ValidationError:
            raise ConfigError(f"{path}:{line}: {name} = {row[name]}: must be a number") from None
    tokens = numbers["n_decode"] + numbers["prefill_chunk"]
    if numbers["num_tokens"] != tokens:
        raise ConfigError(
            f"{path}:{line}: num_tokens = {row['num_tokens']}: n_decode + prefill_chunk is "
            f"{tokens:g}"
        )
    step = numbers["step_us"] / 1e6
    n_decode, kv_decode = numbers["n_decode"], numbers["kv_decode"]
    return n_decode, kv_decode, numbers["prefill_chunk"], numbers[CONTEXT], step
