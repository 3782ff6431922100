"""Miss-ratio curves: lru's from one pass, other policies' from a sample.

lru's curve is exact at every capacity from the longest prompt on: its blocks are a stack (Mattson
et al., 1970), of which `kvframe._core.TraceProfile` counts the distances. Other policies are
replayed on a part of the conversations with as much smaller a cache (Waldspurger et al., FAST 2015,
who sample blocks; here whole conversations are sampled, since a prefix cannot be cut). lru's own
sampled curve is replayed beside them, and its error, which is known, is taken from theirs.
"""

from __future__ import annotations

import dataclasses
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

Indices = npt.NDArray[np.int64]

SIZES = 20
"""Capacities, where none are given."""
SHARED = 0.05
"""A prefix that more of the requests share than this is of no one conversation."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Token hit rates of a policy by capacity.

    Attributes:
        policy: Its label.
        exact: Whether it is lru's, from one pass, or a replay of the whole trace.
        capacities: Blocks.
        token_hit_rates: At each of them.
        error: The largest error of lru's curve from the same sample, before it is taken off; 0 of
            an exact one.
    """

    policy: str
    exact: bool
    capacities: Sequence[int]
    token_hit_rates: Sequence[float]
    error: float = 0.0


class CurveResult(msgspec.Struct, frozen=True, kw_only=True):
    """What ``kvframe bench curve --json`` prints.

    Attributes:
        trace: Its name.
        mode: The mode.
        block_size: Tokens a block.
        distinct_blocks: Of the trace.
        knee_blocks: The knee of lru's curve.
        curves: lru's, and those of other policies.
    """

    trace: str
    mode: str
    block_size: int
    distinct_blocks: int
    knee_blocks: int
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


def knee(curve: Curve) -> int:
    """The capacity from which more room gains least: farthest above the chord, on a log scale of
    blocks (Satopää et al., 2011).
    """
    x = np.log2(np.array(curve.capacities, np.float64))
    y = np.array(curve.token_hit_rates)
    if len(x) < 3 or x[-1] == x[0] or y[-1] <= y[0]:
        return int(curve.capacities[0])
    x, y = (x - x[0]) / (x[-1] - x[0]), (y - y[0]) / (y[-1] - y[0])
    return int(curve.capacities[int(np.argmax(y - x))])


def conversations(trace: _core.Trace) -> Indices:
    """The conversation of each request: the first prefix that few requests share, numbered anew.

    Requests whose prompt is one that many share, or that have no block, are conversations of their
    own.
    """
    chains = [trace.request(at)[4] for at in range(trace.requests)]
    nodes = np.fromiter((node for chain in chains for node in chain), np.int64)
    users = np.bincount(nodes)
    most = max(1, int(SHARED * len(chains)))
    own = -1
    found = np.empty(len(chains), np.int64)
    for at, chain in enumerate(chains):
        node = next((node for node in chain if users[node] <= most), None)
        if node is None:
            own -= 1
        found[at] = own if node is None else node
    numbers: Indices = np.unique(found, return_inverse=True)[1].astype(np.int64)
    return numbers


def sample(source: Source, rate: float, seed: int = 0) -> Source:
    """About ``rate`` of the conversations, whole and in order.

    Raises:
        ConfigError: The rate is not above 0 and at most 1.
    """
    if not 0 < rate <= 1:
        raise ConfigError(f"--sample {rate}: must be above 0 and at most 1")
    number = conversations(source.trace)
    count = int(number.max(initial=-1)) + 1
    kept = np.random.default_rng(seed).permutation(count) < max(1, round(rate * count))
    indices = np.flatnonzero(kept[number]).astype(np.int64)
    return dataclasses.replace(source, trace=source.trace.subset(indices))


def sampled_curves(
    source: Source,
    mode: str,
    choices: Sequence[Choice],
    exact: Curve,
    rate: float,
) -> list[Curve]:
    """Curves at the capacities of lru's exact one; ``rate`` 1 replays the whole trace.

    Raises:
        ConfigError: As `sample`.
    """
    if rate == 1:
        return [
            Curve(
                policy=choice.label,
                exact=True,
                capacities=exact.capacities,
                token_hit_rates=[_rate(source, mode, choice, size) for size in exact.capacities],
            )
            for choice in choices
        ]
    some = sample(source, rate)
    blocks, whole = (one.trace.prepare(mode)["unique_blocks"] for one in (some, source))
    share = blocks / max(whole, 1)
    sizes = [max(1, round(size * share)) for size in exact.capacities]
    own = lru_curve(some, mode, sizes)
    error = np.array(own.token_hit_rates) - np.array(exact.token_hit_rates)
    curves = []
    for choice in choices:
        rates = np.array([_rate(some, mode, choice, size) for size in sizes]) - error
        curves.append(
            Curve(
                policy=choice.label,
                exact=False,
                capacities=exact.capacities,
                token_hit_rates=np.clip(rates, 0, 1).tolist(),
                error=float(np.abs(error).max(initial=0)),
            )
        )
    return curves


def _rate(source: Source, mode: str, choice: Choice, size: int) -> float:
    return measure(Plan(source, choice, mode, size)).cell.token_hit_rate
