"""Figures of a cell that are made of its requests' outcomes, each with its definition beside it.

One can be added: decorate a function of `Served`, and name it by place (``--metric ours.py:late``)
or in an entry-point group (``kvframe.metric``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np

from kvframe.bench.bootstrap import Floats, clusters
from kvframe.bench.outcomes import RequestFacts, RequestOutcomes
from kvframe.errors import PluginError
from kvframe.registry.naming import is_place
from kvframe.registry.places import load
from kvframe.spelling import did_you_mean

GROUP = "kvframe.metric"


@dataclass(frozen=True, eq=False)
class Served:
    """A cell's requests: what the trace says of them, and what the replay did.

    Attributes:
        facts: Of the trace.
        outcomes: Of the replay.
        block_size: Tokens a block.
    """

    facts: RequestFacts
    outcomes: RequestOutcomes
    block_size: int

    @property
    def input_tokens(self) -> int:
        return int(self.facts.input_tokens.sum(dtype=np.int64))


@dataclass(frozen=True)
class Metric:
    """A figure of a cell.

    Attributes:
        name: As it stands in tables and in the ``metrics`` of a cell.
        unit: As "share" or "s".
        definition: One sentence.
        of: Makes the figure; NaN where there is none.
    """

    name: str
    unit: str
    definition: str
    of: Callable[[Served], float]

    def __call__(self, served: Served) -> float:
        return self.of(served)


def metric(name: str, unit: str, definition: str) -> Callable[[Callable[[Served], float]], Metric]:
    """Decorates the function that makes the figure."""
    return lambda of: Metric(name, unit, definition, of)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


@metric(
    "any_block_hit_rate",
    "share of prompt tokens",
    "cached prompt tokens, behind a missing block too, over prompt tokens; token_hit_rate counts "
    "the contiguous prefix alone",
)
def any_block(served: Served) -> float:
    """Equal to the token hit rate where the leaf rule leaves no holes."""
    found = served.outcomes.hit_tokens.sum(dtype=np.int64)
    behind = served.outcomes.after_gap_tokens.sum(dtype=np.int64)
    return _share(int(found + behind), served.input_tokens)


@metric(
    "requests_with_holes",
    "share of requests",
    "requests with cached blocks behind a missing one, over requests",
)
def holes(served: Served) -> float:
    """0 where the leaf rule leaves no holes."""
    behind = served.outcomes.after_gap_tokens
    return _share(int(np.count_nonzero(behind)), len(behind))


def _positions(tokens: np.ndarray) -> Floats:
    """The sum of ``position + 1`` over the first tokens of each prompt."""
    n = tokens.astype(np.float64)
    return n * (n + 1) / 2


@metric(
    "compute_saved_position",
    "share of the cost",
    "cost of the hit tokens over cost of the prompt tokens, where the token at position p costs "
    "p + 1 (attention alone)",
)
def compute_position(served: Served) -> float:
    """More than the token hit rate where long prefixes hit."""
    saved = _positions(served.outcomes.hit_tokens).sum()
    return _share(saved, _positions(served.facts.input_tokens).sum())


@metric(
    "compute_saved_30b",
    "share of the cost",
    "the same, where a block of 16 tokens at block position p costs 865 + 2 p (a 30B coder, "
    "arXiv 2609.28870)",
)
def compute_30b(served: Served) -> float:
    """Between the token hit rate and `compute_position`."""

    def cost(tokens: np.ndarray) -> float:
        blocks = tokens.astype(np.float64) / 16
        return float((865 * blocks + blocks * np.maximum(blocks - 1, 0)).sum())

    return _share(cost(served.outcomes.hit_tokens), cost(served.facts.input_tokens))


def _by_session(served: Served) -> Floats:
    cluster, count = clusters(served.facts.session)
    hits = np.bincount(cluster, served.outcomes.hit_tokens, count)
    tokens = np.bincount(cluster, served.facts.input_tokens, count)
    rates: Floats = hits[tokens > 0] / tokens[tokens > 0]
    return rates


def _nearest_rank(values: Floats, percent: int) -> float:
    if not len(values):
        return float("nan")
    return float(np.percentile(values, percent, method="inverted_cdf"))


def _percentile(name: str, percent: int) -> Metric:
    definition = (
        f"{percent}th percentile over sessions (requests where there are none) of the session's "
        "hit tokens over its prompt tokens, by nearest rank"
    )

    @metric(name, "share of prompt tokens", definition)
    def of(served: Served) -> float:
        return _nearest_rank(_by_session(served), percent)

    return of


def _ttft(name: str, percent: int) -> Metric:
    definition = (
        f"timed mode: {percent}th percentile of seconds from arrival to the first token, by "
        "nearest rank, over requests that fit the cache"
    )

    @metric(name, "s", definition)
    def of(served: Served) -> float:
        seconds = served.outcomes.ttft_seconds
        return _nearest_rank(seconds[~np.isnan(seconds)], percent)

    return of


BUILTIN: tuple[Metric, ...] = (
    any_block,
    holes,
    compute_position,
    compute_30b,
    *(_percentile(f"session_hit_rate_p{percent}", percent) for percent in (10, 50, 90, 99)),
    *(_ttft(f"ttft_seconds_p{percent}", percent) for percent in (50, 99)),
)


def choose(names: Iterable[str]) -> list[Metric]:
    """The built-in metrics, and those of ``names``: installed, or ``FILE.py:NAME``.

    Raises:
        PluginError: One is not found, cannot be imported, or is no `Metric`.
    """
    known = {one.name: one for one in BUILTIN}
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name in names:
        if name in known:
            continue
        if is_place(name):
            found = load(name)
        elif name in installed:
            try:
                found = installed[name].load()
            except Exception as error:
                raise PluginError(f"metric {name}: {error}") from error
        else:
            every = sorted({*known, *installed})
            raise PluginError(
                f"metric {name}: there is none of this name{did_you_mean(name, every)}; there are "
                f"{', '.join(every)}, or FILE.py:NAME"
            )
        if not isinstance(found, Metric):
            raise PluginError(f"metric {name}: must be a kvframe.bench.metrics.Metric")
        known[found.name] = found
    return list(known.values())
