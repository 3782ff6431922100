"""From a simulation's columns to numbers: quantiles by nearest rank, rates over the run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.bench.server.sla import Sla

Column = npt.NDArray[np.float64]

FINISHED, REJECTED = 1, 2
"""What `kvframe._core.serve` has in its column ``fate``; 0: not served to its end."""


class Quantiles(NamedTuple):
    """A mean, and percentiles by nearest rank: so many per cent do not exceed them.

    None where there is no value.
    """

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


def quantiles(values: Column, counts: npt.NDArray[np.uint32] | None = None) -> Quantiles:
    """The quantiles of ``values``, each of which occurs as often as ``counts`` says, or once."""
    if not len(values):
        return Quantiles()
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    weights = np.ones(len(values), np.int64) if counts is None else counts[order].astype(np.int64)
    upto = np.cumsum(weights)
    total = int(upto[-1])
    ranks = [-(-total * percent // 100) for percent in (50, 90, 99)]
    found = ordered[np.searchsorted(upto, ranks)]
    return Quantiles(float(ordered @ weights) / total, *map(float, found))


class Times(NamedTuple):
    """Seconds of each finished request, in the order of the trace.

    Attributes:
        ttft: From arrival to the first token.
        itl: From token to token, on the request's mean; NaN where there is one token.
        e2e: From arrival to the last token.
    """

    ttft: Column
    itl: Column
    e2e: Column


def times(raw: dict[str, Any], output_tokens: npt.NDArray[np.uint32]) -> Times:
    """The times of finished requests; ``output_tokens`` is the trace's column."""
    done = raw["fate"] == FINISHED
    arrival, first, end = (raw[name][done] for name in ("arrival", "first_token", "end"))
    more = np.maximum(output_tokens[done].astype(np.int64), 1) - 1
    itl = np.full(len(first), np.nan)
    np.divide(end - first, more, out=itl, where=more > 0)
    return Times(first - arrival, itl, end - arrival)


def kept(found: Times, sla: Sla) -> int:
    """Requests that were served as promised; one token has no time between tokens to break."""
    good = np.ones(len(found.ttft), bool)
    for values, most in zip((found.ttft, found.itl, found.e2e), sla, strict=True):
        if most is not None:
            good &= ~(values > most)
    return int(good.sum())


def short(value: float | None, unit: float = 1.0) -> str:
    """Four digits, and never an exponent."""
    if value is None:
        return "-"
    shown = value * unit
    digits = 3 if shown < 10 else 2 if shown < 100 else 1 if shown < 1000 else 0
    return f"{shown:,.{digits}f}"
