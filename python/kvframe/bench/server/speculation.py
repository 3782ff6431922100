"""Tokens of answers that are drafted, and verified in the next step: what was asked for."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvframe.bench.options import keyed
from kvframe.bench.server.cards import Card
from kvframe.bench.server.durations import parse_time
from kvframe.config.sizes import whole
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

POLICIES = ("fixed", "goodput-budget", "gated-budget", "gated-aggregate")
"""How many drafts a step verifies: as many as may be, or as many as bring most."""
PASSES = ("dense_params", "expert_params", "experts", "experts_used", "shared_experts")
BLOCK = ("block_params", "block")
SWITCH = ("cooldown", "max_step", "switch_cost")
KEYS = ("tokens", "accept", "cost", "policy", *SWITCH, *PASSES, *BLOCK, "measured", "context")
MEASURED = ("batch_size", "num_draft_tokens", "step_seconds")
"""Columns of a table of steps; what a step computes of a sequence counts: 1 is without drafts."""
MOST = 64

Round = tuple[int, list[float]]


class Speculation(NamedTuple):
    """How answers are drafted.

    Attributes:
        tokens: Drafts of a sequence in a step, at most.
        accept: How likely a draft is right if those before it are: each, or by place; or rounds
            that were recorded: drafts that were right, and what the drafter took each for.
        cost: What drafting one for all sequences takes, as a share of the step that verifies it.
        policy: One of `POLICIES`.
        switch: Every how many steps the number is weighed anew, the most that it changes, and the
            seconds that a change takes.
        passes: A small model drafts token by token: parameters that each pass reads, those of an
            expert; experts, those that a token takes, and those that all take.
        block: A model drafts so many tokens in one pass: its parameters, and how many.
        measured: Sequences, drafts of each, and seconds of a step.
        context: Tokens that a sequence attended to in those.
    """

    tokens: int
    accept: float | list[float] | list[Round]
    cost: float = 0.0
    policy: str = POLICIES[0]
    switch: tuple[int, int | None, float] = (0, None, 0.0)
    passes: tuple[float, float, int, int, int] | None = None
    block: tuple[float, int] | None = None
    measured: list[tuple[int, int, float]] | None = None
    context: int | None = None

    def table(self, card: Card, cards: int) -> dict[str, Any]:
        """The same for the core, of a drafter that runs on so many cards.

        Its weights are read at two bytes a parameter, and a token takes two operations of each.
        """
        flops, bandwidth = card.flops * cards, card.bandwidth * cards
        made: dict[str, Any] = {
            "drafts": self.tokens,
            "cost": self.cost,
            "policy": self.policy,
            "switch": self.switch,
            "measured": self.measured,
            "context": self.context,
        }
        if isinstance(self.accept, float):
            made["accept"] = self.accept
        else:
            made["rounds" if isinstance(self.accept[0], tuple) else "places"] = self.accept
        if self.passes is not None:
            dense, expert, experts, used, shared = self.passes
            active = dense + (used + shared) * expert
            times = (2 * active / flops, 2 * dense / bandwidth, 2 * expert / bandwidth)
            made["passes"] = (*times, experts, used, shared)
        if self.block is not None:
            params, block = self.block
            made["block"] = (2 * params * block / flops, 2 * params / bandwidth)
        return made


def parse_speculation(text: str) -> Speculation:
    """``tokens=3,accept=0.7,cost=0.05``, ``tokens=3,accept=0.84/0.67/0.54,policy=goodput-budget``.

    Raises:
        ConfigError: An unknown key, one that is missing or goes with another, an impossible value,
            or a file that cannot be read or is no such table.
    """
    where = f"--speculate {text}"
    given = {key: str(value) for key, value in keyed(text.split(","), where).items()}
    for key in given:
        if key not in KEYS:
            raise ConfigError(f"{where}: no key {key}: {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    for key in ("tokens", "accept"):
        if key not in given:
            raise ConfigError(f"{where}: {key} is missing")
    policy = given.get("policy", POLICIES[0])
    if policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise ConfigError(
            f"{where}: policy = {policy}: must be {known}{did_you_mean(policy, POLICIES)}"
        )
    _check_together(given, policy, where)
    numbers = _Numbers(given, where)
    rows = list(_measured(Path(given["measured"]))) if "measured" in given else None
    return Speculation(
        tokens=numbers.whole("tokens", 1, MOST),
        accept=_accept(given["accept"], where),
        cost=_share(given.get("cost", "0"), f"{where}: cost", 10.0),
        policy=policy,
        switch=(
            numbers.whole("cooldown", 0, 2**31, 0),
            numbers.whole("max_step", 1, MOST) if "max_step" in given else None,
            parse_time(given.get("switch_cost", "0ms"), f"{where}: switch_cost"),
        ),
        passes=(
            numbers.amount("dense_params"),
            numbers.amount("expert_params", "0"),
            numbers.whole("experts", 0, 2**20, 0),
            numbers.whole("experts_used", 0, 2**20, 0),
            numbers.whole("shared_experts", 0, 2**20, 0),
        )
        if "dense_params" in given
        else None,
        block=(numbers.amount("block_params"), numbers.whole("block", 1, 1024))
        if "block_params" in given
        else None,
        measured=rows,
        context=numbers.whole("context", 1, 2**31) if "context" in given else None,
    )


def _check_together(given: Mapping[str, str], policy: str, where: str) -> None:
    """What goes only with another key, and what with none."""
    needs = {
        **dict.fromkeys(SWITCH, "policy=gated-aggregate"),
        **dict.fromkeys(PASSES[1:], "dense_params"),
        "block": "block_params",
        "block_params": "block",
        "context": "measured",
    }
    for key in given:
        need = needs.get(key)
        is_there = need == f"policy={policy}" or need in given
        if need is not None and not is_there:
            raise ConfigError(f"{where}: {key}: goes with {need}")
    drafters = [key for key in ("cost", "dense_params", "block_params") if key in given]
    if len(drafters) > 1:
        raise ConfigError(f"{where}: {' and '.join(drafters)}: one drafter has one cost")


class _Numbers(NamedTuple):
    given: Mapping[str, str]
    where: str

    def whole(self, key: str, least: int, most: int, usual: int | None = None) -> int:
        if usual is not None and key not in self.given:
            return usual
        text = self.given[key]
        number = whole(text)
        if number is None or not least <= number <= most:
            raise ConfigError(
                f"{self.where}: {key} = {text}: must be a whole number from {least} to {most}"
            )
        return number

    def amount(self, key: str, usual: str | None = None) -> float:
        text = self.given[key] if usual is None else self.given.get(key, usual)
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ConfigError(f"{self.where}: {key} = {text}: must be a number, 0 or more")
        return value


def _accept(text: str, where: str) -> float | list[float] | list[Round]:
    if Path(text).suffix == ".csv":
        return list(_rounds(Path(text)))
    shares = [_share(share, f"{where}: accept", 1.0) for share in text.split("/")]
    return shares if len(shares) > 1 else shares[0]


def _rounds(path: Path) -> Iterator[Round]:
    """``commits``, and ``a0``, ``a1``, ...: a row a round."""
    rows = _read(path, "accept")
    names = [name for name in rows[0] if name[:1] == "a" and name[1:].isdecimal()]
    if rows[0][0] != "commits" or not names:
        raise ConfigError(f"{path}:1: must have the columns commits, a0, a1 and so on")
    places = [rows[0].index(name) for name in names]
    for line, row in enumerate(rows[1:], 2):
        told = [_share(row[at], f"{path}:{line}: {rows[0][at]}", 1.0) for at in places]
        commits = whole(row[0])
        if commits is None:
            raise ConfigError(f"{path}:{line}: commits = {row[0]}: must be a whole number")
        yield commits, told


def _measured(path: Path) -> Iterator[tuple[int, int, float]]:
    rows = _read(path, "measured")
    if tuple(rows[0]) != MEASURED:
        raise ConfigError(f"{path}:1: must have the columns {', '.join(MEASURED)}")
    for line, row in enumerate(rows[1:], 2):
        numbers = _Numbers(dict(zip(MEASURED, row, strict=True)), f"{path}:{line}")
        seconds = numbers.amount(MEASURED[2])
        if not seconds:
            raise ConfigError(f"{path}:{line}: {MEASURED[2]} = {row[2]}: must be above 0")
        yield numbers.whole(MEASURED[0], 1, 2**20), numbers.whole(MEASURED[1], 1, 1024) - 1, seconds


def _read(path: Path, key: str) -> Sequence[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except OSError as error:
        raise ConfigError(f"--speculate: {key} = {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--speculate: {key} = {path}: is not UTF-8 text") from None
    if len(rows) < 2:
        raise ConfigError(f"{path}: has no rows")
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(rows[0]):
            raise ConfigError(f"{path}:{line}: {len(row)} cells, and {len(rows[0])} columns")
    return rows


def _share(text: str, where: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise ConfigError(f"{where} = {text}: must be a number from 0 to {most:g}")
    return value
