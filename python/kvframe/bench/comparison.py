"""Differences of the policies of a field, with intervals that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import msgspec
import numpy as np

from kvframe.bench.bootstrap import DRAWS, LEVEL, Floats, drawn_rates, simultaneous, told
from kvframe.bench.field import Field
from kvframe.bench.policies import BASELINE


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two policies at one size, or on the mean of all sizes tried.

    Attributes:
        policy: One.
        baseline: The other.
        capacity_blocks: The size; None for the mean.
        difference: Token hit rate of the one less that of the other.
        low: Where its interval begins.
        high: Where it ends.
        p: How often a difference as large would be among all that were compared if none were real.
    """

    policy: str
    baseline: str
    capacity_blocks: int | None
    difference: float
    low: float
    high: float
    p: float

    @property
    def real(self) -> bool:
        """Whether zero lies outside of the interval."""
        return self.low > 0 or self.high < 0

    @property
    def better(self) -> bool:
        return self.low > 0

    @property
    def points(self) -> str:
        """``"2.1 [1.7, 2.6] points"``."""
        digits = 1 if abs(self.difference) >= 0.01 else 2
        low, mid, high = (
            f"{100 * value:.{digits}f}" for value in (self.low, self.difference, self.high)
        )
        return f"{mid} [{low}, {high}] points"

    def turned(self) -> Comparison:
        """The same comparison with policy and baseline exchanged."""
        return Comparison(
            policy=self.baseline,
            baseline=self.policy,
            capacity_blocks=self.capacity_blocks,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            p=self.p,
        )


@dataclass(frozen=True)
class Comparisons:
    """All that were made of a field: each policy with lru at each size and on the mean, and all
    pairs on the mean.

    Attributes:
        rows: The comparisons.
        resampled: How many sessions or requests were, in words.
        draws: How often.
        level: Of the intervals.
    """

    rows: list[Comparison]
    resampled: str
    draws: int = DRAWS
    level: float = LEVEL

    def of(self, policy: str, baseline: str, capacity: int | None) -> Comparison | None:
        """The one of these two at this size, from the side of ``policy``."""
        for row in self.rows:
            if row.capacity_blocks != capacity:
                continue
            if (row.policy, row.baseline) == (policy, baseline):
                return row
            if (row.baseline, row.policy) == (policy, baseline):
                return row.turned()
        return None


def compare(field: Field) -> Comparisons:
    """Compare the policies of ``field`` that ran everywhere; lru is one of them."""
    labels, sizes, seeds = field.finished, field.sizes, field.seeds
    shape = len(labels), len(sizes), len(seeds)
    plans = [
        field.online[label][size, seed] for label in labels for size in sizes for seed in seeds
    ]
    together = field.facts.together[field.first :]
    hits = [field.hits(plan) for plan in plans]
    whole = max(field.whole, 1)
    found = np.array([hit.sum(dtype=np.int64) for hit in hits]).reshape(shape) / whole
    drawn = drawn_rates(hits, field.input_tokens, together).reshape(-1, *shape)
    rates, drawn = over_seeds(found, drawn)
    pairs = list(_contrasts(labels, len(sizes)))
    estimate = np.array([_of(rates, *pair) for pair in pairs])
    spread = np.stack([_of(drawn, *pair) for pair in pairs], axis=1) if pairs else drawn[:, :0, 0]
    made = simultaneous(estimate, spread)
    rows = [
        Comparison(
            policy=labels[one],
            baseline=labels[other],
            capacity_blocks=sizes[at] if at is not None else None,
            difference=float(made.estimate[i]),
            low=float(made.low[i]),
            high=float(made.high[i]),
            p=float(made.p[i]),
        )
        for i, (one, other, at) in enumerate(pairs)
    ]
    return Comparisons(rows, told(field.facts, field.first))


def over_seeds(rates: Floats, drawn: Floats) -> tuple[Floats, Floats]:
    """Means over seeds. For the draws, the seeds are themselves drawn with replacement."""
    count = rates.shape[-1]
    if count == 1:
        return rates[..., 0], drawn[..., 0]
    dice = np.random.default_rng(count)
    taken = dice.integers(count, size=(len(drawn), count))
    weights = np.stack([(taken == seed).mean(axis=1) for seed in range(count)], axis=1)
    mean: Floats = rates.mean(axis=-1)
    return mean, np.einsum("bpsr,br->bps", drawn, weights)


_Pair = tuple[int, int, int | None]
"""Two policies, and the size; None is the mean."""


def _contrasts(labels: list[str], count: int) -> Iterator[_Pair]:
    lru = labels.index(BASELINE)
    others = [at for at in range(len(labels)) if at != lru]
    for one in others:
        for size in range(count):
            yield one, lru, size
        if count > 1:
            yield one, lru, None
    for one, other in combinations(others, 2):
        yield one, other, None if count > 1 else 0


def _of(rates: Floats, one: int, other: int, size: int | None) -> Floats:
    """Differences at a size, or on the mean; policies and sizes are the last two axes."""
    by_size: Floats = rates[..., one, :] - rates[..., other, :]
    return by_size.mean(axis=-1) if size is None else by_size[..., size]
