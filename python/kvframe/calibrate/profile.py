"""What a step takes, as a few terms fitted to measured steps."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvframe._core import StepProfile
from kvframe.errors import UsageError

KNOTS = (64.0, 128.0, 256.0)
"""Tokens from which on a further token may cost another time: matrix kernels change tiles there."""
COLUMNS = ("num_tokens", "n_decode", "kv_decode", "prefill_chunk", "step_us")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """Measured steps, an array a column, all of one length.

    Attributes:
        num_tokens: Tokens computed.
        n_decode: Sequences that computed one token of their answer.
        kv_decode: Tokens that those attended to, all together.
        prefill_chunk: Prompt tokens computed, of one request.
        kv_prefill: Tokens of that prompt before the chunk.
        step_us: Microseconds of the step.
        host_us: Microseconds that the host added; 0 where the file does not say.
        prefill_context: Tokens that each prompt token attended to on the mean, of all prompts of a
            step; 0 where ``kv_prefill`` says it of one.
    """

    num_tokens: Floats
    n_decode: Floats
    kv_decode: Floats
    prefill_chunk: Floats
    kv_prefill: Floats
    step_us: Floats
    host_us: Floats
    prefill_context: Floats

    @classmethod
    def read(cls, path: Path) -> Steps:
        """The steps of a CSV file whose header names `COLUMNS`, and others if known.

        Raises:
            UsageError: A column is missing, or a field is no number of 0 or more.
        """
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        missing = [name for name in COLUMNS if not rows or name not in rows[0]]
        if missing:
            raise UsageError(f"{path}: no column {missing[0]}; needs {', '.join(COLUMNS)}")

        def column(name: str) -> Floats:
            values = []
            for at, row in enumerate(rows, 2):
                text = row.get(name) or "0"
                try:
                    value = float(text)
                except ValueError:
                    value = -1.0
                if not 0 <= value < float("inf"):
                    raise UsageError(f"{path}:{at}: {name} = {text}: must be a number, 0 or more")
                values.append(value)
            return np.array(values)

        return cls(**{name: column(name) for name in cls.__dataclass_fields__})

    @property
    def pairs(self) -> Floats:
        """Pairs of a prompt token and a token that it attends to."""
        rows = np.where(
            self.prefill_chunk > 0, np.maximum(self.prefill_chunk, StepProfile.SHORT_CHUNK), 0
        )
        of_one = rows * self.kv_prefill + self.prefill_chunk * (self.prefill_chunk + 1) / 2
        pairs: Floats = np.where(
            self.prefill_context > 0, self.prefill_chunk * self.prefill_context, of_one
        )
        return pairs


@dataclass(frozen=True)
class Profile:
    """Microseconds of what a step does; a step takes their sum.

    Attributes:
        fixed: Of any step: reading the weights, and starting the kernels.
        tokens: Of each further token computed: first from 0, then from each of ``knots`` on.
        sequence: Of each decoding sequence, beside its tokens.
        kv_token: Of each token that decoding sequences attend to.
        pair: Of each pair of a prompt token and a token that it attends to.
        host: That the host adds to a step.
        knots: Where the time of a further token may change.
        mixed: Of each pair of a token computed and a token that decoding sequences attend to, of
            whichever sequence: some engines attend to the whole batch at once, and mask.
    """

    fixed: float
    tokens: tuple[float, ...]
    sequence: float
    kv_token: float
    pair: float
    host: float
    knots: tuple[float, ...] = KNOTS
    mixed: float = 0.0

    def predict(self, steps: Steps) -> Floats:
        """Microseconds of each step, without the host's."""
        slopes = np.diff([0.0, *self.tokens])
        rest = (self.sequence, self.kv_token, self.pair, self.mixed)
        predicted: Floats = _features(steps, self.knots) @ np.array([self.fixed, *slopes, *rest])
        return predicted

    def for_core(self) -> StepProfile:
        """The profile as the simulated server takes it, in seconds.

        The host's time is part of the fixed time of every step.
        """
        return StepProfile.fitted(
            (self.fixed + self.host) / 1e6,
            [(knot, each / 1e6) for knot, each in zip((0, *self.knots), self.tokens, strict=True)],
            self.sequence / 1e6,
            self.kv_token / 1e6,
            self.pair / 1e6,
            self.mixed / 1e6,
        )

    def errors(self, steps: Steps) -> Floats:
        """Relative error of each step: 0.05 where the prediction is 5 % above the time."""
        return self.predict(steps) / steps.step_us - 1


def knots_of(steps: Steps) -> tuple[float, ...]:
    """Knots for a server's log: quartiles of the tokens of steps that computed prompts.

    `KNOTS` are those of a card's kernels; other engines do other work in smaller steps.
    """
    tokens = steps.num_tokens[steps.prefill_chunk > 0]
    if not len(tokens):
        return KNOTS
    found: list[float] = []
    for quartile in np.percentile(tokens, (25, 50, 75)).tolist():
        found.append(max(quartile, found[-1] + 1.0 if found else 1.0))
    return tuple(found)


def _features(steps: Steps, knots: tuple[float, ...]) -> Floats:
    tokens = [np.maximum(steps.num_tokens - knot, 0) for knot in (0, *knots)]
    rest = (steps.n_decode, steps.kv_decode, steps.pairs, steps.num_tokens * steps.kv_decode)
    return np.stack([np.ones_like(steps.num_tokens), *tokens, *rest], axis=1)


def fit_log(steps: Steps) -> Profile:
    """The profile of a server's log, whose steps vary from one to the next.

    Errors are relative to what is predicted: relative to what was measured, a slow step would weigh
    less than a fast one, and every prediction would come out short.

    Raises:
        UsageError: As `fit`.
    """
    knots = knots_of(steps)
    profile = fit(steps, knots)
    for _ in range(4):
        unit = np.maximum(profile.predict(steps), 1e-3)
        profile = _fit(steps, knots, unit, mixed=True)
    return profile


def fit(steps: Steps, knots: tuple[float, ...] = KNOTS) -> Profile:
    """The profile with the least squared relative error over ``steps``; no term is negative.

    From a knot on, a further token may cost less than before it: changes of slope may be negative.
    Coordinate descent solves it: the problem is small and convex.

    Args:
        steps: What was measured.
        knots: As `Profile` has them.

    Raises:
        UsageError: There are fewer steps than terms, or a step took no time.
    """
    needed = 5 + len(knots)
    if len(steps.step_us) < needed:
        raise UsageError(f"{len(steps.step_us)} steps: needs at least {needed}, one a term")
    if not (steps.step_us > 0).all():
        raise UsageError("step_us: every step must take more than 0")
    return _fit(steps, knots, steps.step_us)


def _fit(steps: Steps, knots: tuple[float, ...], unit: Floats, *, mixed: bool = False) -> Profile:
    """The least squares, of errors in times of ``unit``."""
    bent = range(2, 2 + len(knots))
    terms = _features(steps, knots)
    found = least_squares(terms if mixed else terms[:, :-1], steps.step_us, unit, bent)
    slopes = tuple(float(slope) for slope in np.maximum(np.cumsum(found[1 : 2 + len(knots)]), 0.0))
    sequence, kv_token, pair, *product = (float(value) for value in found[2 + len(knots) :])
    host = float(np.median(steps.host_us))
    return Profile(float(found[0]), slopes, sequence, kv_token, pair, host, knots, *product)


def least_squares(terms: Floats, times: Floats, unit: Floats, signed: Sequence[int] = ()) -> Floats:
    """What each term costs, with the least squares of errors in times of ``unit``.

    Args:
        terms: A row for each time.
        times: What was measured.
        unit: What an error of 1 is, for each of them.
        signed: Columns whose cost may be negative; no other may.
    """
    scaled = terms / unit[:, None]
    norms = np.maximum(np.linalg.norm(scaled, axis=0), 1e-30)
    scaled = scaled / norms
    gram, wanted = scaled.T @ scaled, scaled.T @ (times / unit)
    found = np.zeros(len(norms))
    for _ in range(5_000):
        before = found.copy()
        for at in range(len(found)):
            value = found[at] + wanted[at] - gram[at] @ found
            found[at] = value if at in signed else max(0.0, value)
        if np.abs(found - before).max() < 1e-9 * max(float(np.abs(found).max()), 1.0):
            break
    solved: Floats = found / norms
    return solved
