"""Rates of policies by size, with an interval for the difference of every two policies.

As in `kvframe.bench.bootstrap`, sessions are resampled whole, and all policies and sizes see the
same draws. A reader picks any pair at any size, so intervals are as wide as the largest studentised
deviation of all pairs at all sizes, and on the mean of the sizes, asks for.
"""

from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np

from kvframe.bench.bootstrap import (
    DRAWS,
    LEVEL,
    Floats,
    drawn_rates,
    standard_errors,
    told,
)
from kvframe.bench.charts.gathered import Traffic
from kvframe.bench.comparison import over_seeds
from kvframe.bench.outcomes import RequestFacts


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """What ran at every size.

    Attributes:
        policies: Those that an engine can run.
        sizes: Blocks.
        rates: Token hit rates by policy, then by size.
        low: Where the interval of each rate by itself begins; empty without the requests' outcomes.
        high: Where it ends.
        errors: Standard errors of differences by size, and last on the mean of the sizes; then by
            pair, in the order of `itertools.combinations`. Empty without the requests' outcomes.
        reach: How many of them an interval is wide, each way.
        doubt: What the intervals are of.
    """

    policies: list[str]
    sizes: list[int]
    rates: list[list[float]]
    low: list[list[float]] = []
    high: list[list[float]] = []
    errors: list[list[float]] = []
    reach: float = 0.0
    doubt: str = ""

    def difference(self, one: str, other: str, size: int | None) -> tuple[float, float, float]:
        """How far one is ahead of the other, and the interval's ends, at a size or (None) on the
        mean.

        Without the requests' outcomes both ends are NaN.
        """
        a, b = self.policies.index(one), self.policies.index(other)
        rates = np.array(self.rates)[[a, b]]
        at = len(self.sizes) if size is None else self.sizes.index(size)
        values = rates.mean(axis=1) if size is None else rates[:, at]
        apart = float(values[0] - values[1])
        if not self.errors:
            return apart, float("nan"), float("nan")
        pairs = list(combinations(range(len(self.policies)), 2))
        error = 0.0 if a == b else self.errors[at][pairs.index((min(a, b), max(a, b)))]
        return apart, apart - self.reach * error, apart + self.reach * error


def paired(traffic: Traffic) -> Paired:
    """The rates of what ran at every size; intervals where the outcomes of requests were kept."""
    names, sizes = traffic.finished, traffic.sizes
    facts = traffic.facts
    outcomes = [[traffic.of(name, size) for size in sizes] for name in names]
    every = [one.outcomes for row in outcomes for cell in row for one in cell]
    count = traffic.first.requests
    if facts is None or not names or any(o is None or len(o.hit_tokens) != count for o in every):
        rates = [[value or 0.0 for value in traffic.line(name)] for name in names]
        return Paired(policies=names, sizes=sizes, rates=rates)
    first = int(traffic.warm_up * count)
    tokens, session = facts.input_tokens[first:], facts.together[first:]
    whole = max(int(tokens.sum(dtype=np.int64)), 1)
    found, drawn = [], []
    for at in range(len(sizes)):
        hits = [
            one.outcomes.hit_tokens[first:]
            for row in outcomes
            for one in row[at]
            if one.outcomes is not None
        ]
        shape = len(names), len(traffic.seeds)
        share = np.array([hit.sum(dtype=np.int64) for hit in hits]).reshape(shape) / whole
        # The same draws at each size.
        again = drawn_rates(hits, tokens, session)
        mean, spread = over_seeds(share[:, None, :], again.reshape(-1, len(names), 1, shape[1]))
        found.append(mean[:, 0])
        drawn.append(spread[:, :, 0])
    estimate, draws = np.stack(found, axis=1), np.stack(drawn, axis=2)
    errors, reach = _errors(estimate, draws)
    low, high = np.percentile(draws, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    return Paired(
        policies=names,
        sizes=sizes,
        rates=estimate.tolist(),
        low=low.tolist(),
        high=high.tolist(),
        errors=errors.tolist(),
        reach=reach,
        doubt=_doubt(traffic, facts, len(names), first),
    )


def _errors(estimate: Floats, drawn: Floats) -> tuple[Floats, float]:
    """Standard errors of all differences, and the largest of their studentised deviations that 95 %
    of the draws do not exceed: as `kvframe.bench.bootstrap.simultaneous`, a size at a time.
    """
    count, sizes = estimate.shape
    one, other = np.triu_indices(count, 1)
    errors = np.zeros((sizes + 1, len(one)))
    largest = np.zeros(len(drawn))
    for at in range(sizes + 1):
        rates = estimate.mean(axis=1) if at == sizes else estimate[:, at]
        again = drawn.mean(axis=2) if at == sizes else drawn[:, :, at]
        off = again[:, one] - again[:, other] - (rates[one] - rates[other])
        errors[at] = standard_errors(off)
        real = errors[at] > 0
        worst = np.abs(off[:, real] / errors[at][real]).max(axis=1, initial=0.0)
        largest = np.maximum(largest, worst)
    return errors, float(np.quantile(largest, LEVEL, method="higher"))


def _doubt(traffic: Traffic, facts: RequestFacts, count: int, first: int) -> str:
    if count < 2:
        return ""
    seeds = f" and {len(traffic.seeds)} arrival seeds" if len(traffic.seeds) > 1 else ""
    sizes = len(traffic.sizes)
    made = (sizes + (sizes > 1)) * count * (count - 1) // 2
    where = f"{sizes} sizes" if sizes > 1 else "one size"
    warm = f"; the first {first:,} requests do not count" if first else ""
    of = f"corrected for all {made:,} differences" if made > 1 else "the only difference"
    return (
        f"{LEVEL:.0%} intervals by {DRAWS:,} paired resamplings of {told(facts, first)}{seeds}, "
        f"{of} of {count} policies at {where}{warm}"
    )
