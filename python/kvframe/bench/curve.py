"""Miss-ratio curves: lru's from one pass, other policies' from replays.

lru's curve is exact at every capacity from the longest prompt on: its blocks are a stack (Mattson
et al., 1970), of which `kvframe._core.TraceProfile` counts the distances. Other policies are
replayed whole at every capacity, or, where the trace is large, at some of them: between these the
distance from lru is interpolated. A sample (Waldspurger et al., FAST 2015) would be cheaper; but a
prefix cannot be cut, and a tenth of the conversations was further off than four replays of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.bench.cells import Plan
from kvframe.bench.policies import BASELINE, Choice
from kvframe.bench.run import measure
from kvframe.bench.traces import Source
from kvframe.errors import ConfigError

SIZES = 20
"""Capacities, where none are given."""
SMALL = 2_000_000
"""Block accesses of a trace that is replayed at every capacity: a second or two each."""
REPLAYS = 10
"""Capacities at which a larger one is replayed."""
FEWEST = 3
"""Of which one, between two others, can be compared with what these say of it."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Token hit rates of a policy by capacity.

    Attributes:
        policy: Its label.
        exact: Whether all rates are: it is lru's, or was replayed at every capacity.
        capacities: Blocks.
        token_hit_rates: At each of them.
        replayed: The capacities at which the trace was replayed; rates at others are interpolated.
        error: How far off interpolation was, at most, at those of ``replayed`` that lie between
            two others, where one or two in a row are left out; 0 of an exact curve.
    """

    policy: str
    exact: bool
    capacities: Sequence[int]
    token_hit_rates: Sequence[float]
    replayed: Sequence[int] = ()
    error: float = 0.0


class CurveResult(msgspec.Struct, frozen=True, kw_only=True):
    """What ``kvframe bench curve --json`` prints.

    Attributes:
        trace: Its name.
        mode: The mode.
        block_size: Tokens a block.
        distinct_blocks: Of the trace.
        knee_blocks: The knee of lru's curve; None where it has none.
        curves: lru's, and those of other policies.
    """

    trace: str
    mode: str
    block_size: int
    distinct_blocks: int
    knee_blocks: int | None
    curves: Sequence[Curve]


def spaced(profile: _core.TraceProfile, count: int = SIZES) -> list[int]:
    """Capacities from the longest prompt to all that lru can use, evenly on a log scale."""
    facts = profile.facts()
    first = max(int(facts["longest"]), 1)
    last = max(profile.capacity_for(1.0), first)
    steps = np.geomspace(first, last, count)
    return list(dict.fromkeys(np.rint(steps).astype(int).tolist()))


def lru_curve(source: Source, mode: str, capacities: Sequence[int] = ()) -> Curve:
    """Lru at every capacity from one pass, those below the longest prompt from a replay each.

    Raises:
        ConfigError: The mode is ``timed``, where the clock decides and no stack does.
    """
    if mode == "timed":
        raise ConfigError("--mode timed: a curve from one pass needs one request at a time")
    profile = _core.TraceProfile.of(source.trace, mode)
    sizes = list(capacities) or spaced(profile)
    hits = profile.lru_hits(sizes)
    longest = profile.facts()["longest"]
    for at, size in enumerate(sizes):
        if size < longest:
            hits[at] = _core.replay(source.trace, BASELINE, size, mode)["hit_tokens"]
    whole = max(source.trace.input_tokens, 1)
    rates = [hit / whole for hit in hits]
    return Curve(policy=BASELINE, exact=True, capacities=sizes, token_hit_rates=rates)


def knee(curve: Curve) -> int | None:
    """The capacity from which more room gains least: farthest above the chord, on a log scale of
    blocks (Satopää et al., 2011). None where that is an end of the curve.
    """
    x = np.log2(np.array(curve.capacities, np.float64))
    y = np.array(curve.token_hit_rates)
    if len(x) < 3 or x[-1] == x[0] or y[-1] <= y[0]:
        return None
    x, y = (x - x[0]) / (x[-1] - x[0]), (y - y[0]) / (y[-1] - y[0])
    at = int(np.argmax(y - x))
    return int(curve.capacities[at]) if 0 < at < len(x) - 1 else None


def replayed_curves(
    source: Source,
    mode: str,
    choices: Sequence[Choice],
    lru: Curve,
    replays: int | None = None,
) -> list[Curve]:
    """Curves at the capacities of lru's.

    Args:
        source: The trace.
        mode: ``engine`` or ``trace``.
        choices: Policies.
        lru: Its exact curve.
        replays: At how many of the capacities the trace is replayed; None: at all of a small one,
            at `REPLAYS` of a larger.

    Raises:
        ConfigError: There are too few replays.
    """
    if replays is not None and replays < FEWEST:
        raise ConfigError(f"--replays {replays}: must be at least {FEWEST}")
    facts = _core.TraceProfile.of(source.trace, mode).facts()
    sizes = lru.capacities
    if replays is None:
        replays = len(sizes) if facts["block_accesses"] <= SMALL else REPLAYS
    spots = np.linspace(0, len(sizes) - 1, min(replays, len(sizes))).round().astype(int)
    ceiling = facts["hit_tokens"] / max(source.trace.input_tokens, 1)
    of_lru = np.array(lru.token_hit_rates)
    curves = []
    for choice in choices:
        replayed = [sizes[at] for at in spots]
        true = np.array([_rate(source, mode, choice, size) for size in replayed])
        ahead = true - of_lru[spots]
        rates = np.clip(of_lru + np.interp(np.arange(len(sizes)), spots, ahead), 0, ceiling)
        rates[spots] = true
        is_exact = len(spots) == len(sizes)
        curves.append(
            Curve(
                policy=choice.label,
                exact=is_exact,
                capacities=sizes,
                token_hit_rates=rates.tolist(),
                replayed=replayed,
                error=0.0 if is_exact else _left_out(spots, ahead),
            )
        )
    return curves


def _left_out(spots: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> float:
    """The largest error if values are interpolated from those beside them: each alone, and each two
    in a row. A step may fall between any two sizes; of the values on both its sides, one left out
    alone shows half of it.
    """
    found = 0.0
    for left in (1, 2):
        for at in range(1, len(spots) - left):
            out, ends = np.arange(at, at + left), [at - 1, at + left]
            guessed = np.interp(spots[out], spots[ends], values[ends])
            found = max(found, float(np.abs(values[out] - guessed).max()))
    return found


def _rate(source: Source, mode: str, choice: Choice, size: int) -> float:
    return measure(Plan(source, choice, mode, size)).cell.token_hit_rate
