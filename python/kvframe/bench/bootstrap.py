"""Paired bootstrap over sessions, and intervals that hold for all comparisons at once.

A rate is hit tokens over prompt tokens. Requests of one session go together: a draw takes as many
sessions as there are, with replacement, and each request without a session is one of its own
(Efron and Tibshirani, 1993, chapter 8; Field and Welsh, 2007, for clusters). All policies and sizes
see the same draws, so a difference is paired by request. One session alone cannot be resampled: its
requests are. Intervals of few sessions are too narrow (Cameron, Gelbach and Miller, 2008).

Many comparisons are made at once, one for each policy and size, and the best of them is told. So an
interval is as wide as the largest studentised deviation of all of them asks for, the max-statistic
of Westfall and Young (1993) and of Romano and Wolf (2005): the chance that any of the intervals
misses is 5 %. Unlike Holm's or Bonferroni's correction it uses that the comparisons are alike, and
so it costs little where policies and sizes move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.bench.outcomes import RequestFacts, Sessions

Floats = npt.NDArray[np.float64]

DRAWS = 2_000
LEVEL = 0.95
_SEED = 20_261
FEW = 20
"""Sessions of which intervals are too narrow: less than this."""
# A difference below this is rounding error of float sums, and counts as none.
_NOISE = 1e-12
# Weights drawn at a time: 32 MiB of them.
_AT_ONCE = 4_000_000


def clusters(session: Sessions) -> tuple[Sessions, int]:
    """The cluster of each request, numbered from 0, and how many there are."""
    alone = np.flatnonzero(session < 0)
    _, cluster = np.unique(session, return_inverse=True)
    cluster = cluster.astype(np.int64)
    if not len(alone):
        return cluster, int(cluster.max(initial=-1)) + 1
    cluster -= 1  # -1 sorts before every session
    named = int(cluster.max(initial=-1)) + 1
    cluster[alone] = named + np.arange(len(alone))
    return cluster, named + len(alone)


def resampled(session: Sessions) -> tuple[Sessions, int]:
    """As `clusters`, but each request is one of its own where all are of one."""
    cluster, count = clusters(session)
    return (cluster, count) if count > 1 else (np.arange(len(session)), len(session))


def told(facts: RequestFacts, first: int = 0) -> str:
    """What is resampled of the requests from ``first`` on, as ``1,200 sessions``; and what that
    leaves out where it is requests, or few.
    """
    together = facts.together[first:]
    named = bool((facts.session >= 0).any())
    requests = f"{len(together):,} request{'' if len(together) == 1 else 's'}"
    if not named and not facts.are_told:
        return (
            f"{requests} (the trace names no sessions: where its requests belong together, "
            "intervals are too narrow)"
        )
    if clusters(together)[1] < 2:
        return f"{requests} (all are of one session, which says little: intervals are too narrow)"
    count = resampled(together)[1]
    by_prompt = "" if named else ", told by prompts (the trace names none)"
    few = f" (few: intervals of less than {FEW} are too narrow)" if count < FEW else ""
    return f"{count:,} sessions{few}{by_prompt}"


def drawn_rates(
    hits: Sequence[npt.NDArray[Any]],
    tokens: npt.NDArray[Any],
    session: Sessions,
    draws: int = DRAWS,
    seed: int = _SEED,
) -> Floats:
    """Rates of resampled sessions, of shape (draws, columns).

    Args:
        hits: A column of hit tokens by request each.
        tokens: Of each request.
        session: Of each request, -1 for none.
        draws: How many.
        seed: Of the draws: the same one gives the same sessions.
    """
    cluster, count = resampled(session)
    sums = np.stack([np.bincount(cluster, column, count) for column in (*hits, tokens)], axis=1)
    dice = np.random.default_rng(seed)
    rates = np.empty((draws, len(hits)))
    step = max(1, _AT_ONCE // max(count, 1))
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        taken = dice.integers(count, size=(rows, count), dtype=np.int32)
        taken += (np.arange(rows, dtype=np.int32) * count)[:, None]
        weights = np.bincount(taken.ravel(), minlength=rows * count).reshape(rows, count)
        totals = weights.astype(np.float64) @ sums
        rates[start : start + rows] = totals[:, :-1] / np.maximum(totals[:, -1:], 1)
    return rates


@dataclass(frozen=True, eq=False)
class Intervals:
    """Estimates, intervals that hold together, and p-values adjusted for all of them."""

    estimate: Floats
    low: Floats
    high: Floats
    p: Floats

    @property
    def real(self) -> npt.NDArray[np.bool_]:
        """Where zero lies outside."""
        return (self.low > 0) | (self.high < 0)


def standard_errors(drawn: Floats) -> Floats:
    """Standard deviations over draws; 0 if two rates differ by the same amount in every session."""
    error: Floats = drawn.std(axis=0, ddof=1) if len(drawn) > 1 else np.zeros(drawn.shape[1:])
    error[error < _NOISE] = 0
    return error


def simultaneous(estimate: Floats, drawn: Floats, level: float = LEVEL) -> Intervals:
    """Intervals around ``estimate`` of which all hold together with the chance ``level``.

    Args:
        estimate: One a comparison.
        drawn: The same of resampled sessions, of shape (draws, comparisons).
        level: As 0.95.
    """
    error = standard_errors(drawn)
    scale = np.where(error > 0, error, np.inf)
    largest = np.abs((drawn - estimate) / scale).max(axis=1, initial=0.0)
    reach = float(np.quantile(largest, level, method="higher")) if len(largest) else 0.0
    own = np.where(error > 0, np.abs(estimate) / scale, np.inf)
    own[np.abs(estimate) < _NOISE] = 0
    p = (1 + (largest[:, None] >= own).sum(axis=0)) / (1 + len(drawn))
    return Intervals(estimate, estimate - reach * error, estimate + reach * error, p)
