"""Results of any number of runs, put together by what they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

import msgspec

from kvframe.bench.cells import Cell
from kvframe.bench.content import Content
from kvframe.bench.curve import CurveResult
from kvframe.bench.outcomes import RequestFacts, RequestOutcomes
from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.requests import RequestRow
from kvframe.bench.verdict import Verdict
from kvframe.errors import ConfigError
from kvframe.policies.builtin import BUILTIN
from kvframe.spelling import did_you_mean

BOUNDS = frozenset(policy.name for policy in BUILTIN if policy.replay_only)
"""Policies that no engine can run."""

Place = tuple[str, int | None, int]
"""A policy, a size in blocks, an arrival seed."""


@dataclass(frozen=True)
class Kept:
    """A cell, and what was kept beside it."""

    cell: Cell
    outcomes: RequestOutcomes | None = None
    content: Content | None = None

    @property
    def place(self) -> Place:
        return self.cell.policy, self.cell.capacity_blocks, self.cell.arrival_seed


@dataclass(frozen=True)
class Traffic:
    """What ran of one trace in one mode, block size and load.

    Attributes:
        first: One of its cells, which says what it is of.
        kept: Every cell, by its place.
        facts: Of the trace's requests, where they were kept.
        verdict: What the run said; None where cells of several runs were put together.
        warm_up: The share of requests, at the start, that intervals do not count.
    """

    first: Cell
    kept: Mapping[Place, Kept]
    facts: RequestFacts | None = None
    verdict: Verdict | None = None
    warm_up: float = 0.0

    @property
    def label(self) -> str:
        """What it is of, in a few words."""
        cell = self.first
        load = f", load {cell.load:g}" if cell.load != 1 else ""
        name = Path(cell.trace).name
        return f"{name}, {cell.mode} mode, blocks of {cell.block_size}{load}"

    @cached_property
    def sizes(self) -> list[int]:
        """Blocks, ascending."""
        return sorted({size for _, size, _ in self.kept if size is not None})

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({seed for _, _, seed in self.kept})

    @cached_property
    def policies(self) -> list[str]:
        """In the order in which they ran."""
        return list(dict.fromkeys(policy for policy, _, _ in self.kept))

    @cached_property
    def finished(self) -> list[str]:
        """Policies that an engine can run, and that ran at every size and seed."""
        every = [(size, seed) for size in self.sizes for seed in self.seeds]
        return [
            name
            for name in self.policies
            if name not in BOUNDS and all((name, *at) in self.kept for at in every)
        ]

    def of(self, policy: str, size: int | None) -> list[Kept]:
        """A policy's cells at a size, one a seed; what needs no size is the same at each."""
        found = [self.kept.get((policy, size, seed)) for seed in self.seeds]
        found = found if any(found) else [self.kept.get((policy, None, s)) for s in self.seeds]
        return [one for one in found if one is not None]

    def mean(self, policy: str, size: int, figure: Callable[[Cell], float | None]) -> float | None:
        """A figure at a size, on the mean of the seeds; None where there is none."""
        values = [figure(one.cell) for one in self.of(policy, size)]
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    def line(
        self, policy: str, figure: Callable[[Cell], float | None] = lambda cell: cell.token_hit_rate
    ) -> list[float | None]:
        """A figure at each size."""
        return [self.mean(policy, size, figure) for size in self.sizes]


@dataclass(frozen=True)
class Source:
    """Where numbers came from: a name, and what is known of the run."""

    name: str
    told: str


@dataclass(frozen=True)
class Gathered:
    """All results.

    Attributes:
        traffic: Replays, by what is compared with each other.
        servers: Simulated servers, without those of other time factors.
        rows: Requests of simulated servers.
        curves: Hit rates at many sizes.
        sentences: What simulated servers say, one for each trace, capacity and load.
        host_sentences: What simulations say of a host tier.
        remarks: What their figures depend on.
        token_bytes: Bytes of a token's KV, where a result names its model.
        sources: Where the numbers came from.
    """

    traffic: Sequence[Traffic] = ()
    servers: Sequence[ServerCell] = ()
    rows: Sequence[RequestRow] = ()
    curves: Sequence[CurveResult] = ()
    sentences: Sequence[str] = ()
    host_sentences: Sequence[str] = ()
    remarks: Sequence[str] = ()
    token_bytes: int | None = None
    sources: Sequence[Source] = field(default=())

    @cached_property
    def policies(self) -> list[str]:
        """Every policy, in the order in which they ran."""
        names = [name for one in self.traffic for name in one.policies]
        names += [cell.policy for cell in self.servers]
        names += [row.policy for row in self.rows]
        names += [curve.policy for one in self.curves for curve in one.curves]
        return list(dict.fromkeys(names))


def of_policies(gathered: Gathered, names: Sequence[str]) -> Gathered:
    """The same results of these policies alone.

    Raises:
        ConfigError: One of them did not run.
    """
    for name in names:
        if name not in gathered.policies:
            near = did_you_mean(name, gathered.policies)
            raise ConfigError(
                f"{name}: not in these results, of {', '.join(gathered.policies)}{near}"
            )
    own = frozenset(names)
    traffic = [
        replace(one, kept={at: kept for at, kept in one.kept.items() if at[0] in own}, verdict=None)
        for one in gathered.traffic
    ]
    curves = [
        msgspec.structs.replace(one, curves=[curve for curve in one.curves if curve.policy in own])
        for one in gathered.curves
    ]
    return replace(
        gathered,
        traffic=[one for one in traffic if one.kept],
        servers=[cell for cell in gathered.servers if cell.policy in own],
        rows=[row for row in gathered.rows if row.policy in own],
        curves=[one for one in curves if one.curves],
    )


def together(parts: Iterable[Gathered]) -> Gathered:
    """Several results as one; of cells in two of them the later one is taken.

    Traffic of which no cell has a size is left out: there is nothing to compare.

    Raises:
        ConfigError: Two traces of one name differ, or two models do.
    """
    every = list(parts)
    found: dict[tuple[object, ...], Traffic] = {}
    for part in every:
        for one in part.traffic:
            at = (one.first.trace, one.first.mode, one.first.block_size, one.first.load)
            found[at] = _joined(found[at], one) if at in found else one
    models = {part.token_bytes for part in every if part.token_bytes is not None}
    if len(models) > 1:
        told = " and ".join(f"{size:,}" for size in sorted(models))
        raise ConfigError(f"these results are of several models: {told} bytes of KV a token")
    return Gathered(
        traffic=[one for one in found.values() if one.sizes],
        servers=[cell for part in every for cell in part.servers],
        rows=[row for part in every for row in part.rows],
        curves=[curve for part in every for curve in part.curves],
        sentences=[text for part in every for text in part.sentences],
        host_sentences=[text for part in every for text in part.host_sentences],
        remarks=list(dict.fromkeys(text for part in every for text in part.remarks)),
        token_bytes=models.pop() if models else None,
        sources=[source for part in every for source in part.sources],
    )


def _joined(one: Traffic, other: Traffic) -> Traffic:
    same = ("requests", "input_tokens")
    if any(getattr(one.first, name) != getattr(other.first, name) for name in same):
        raise ConfigError(
            f"{one.first.trace}: two traces have this name, of {one.first.requests:,} and "
            f"{other.first.requests:,} requests"
        )
    kept = {**one.kept, **other.kept}
    facts = one.facts or other.facts
    return Traffic(one.first, kept, facts, None, max(one.warm_up, other.warm_up))


def by_traffic(
    cells: Iterable[Kept],
    facts: Mapping[str, RequestFacts | None],
    verdicts: Iterable[Verdict],
    warm_up: float = 0.0,
) -> list[Traffic]:
    """Cells of one run by what is compared with each other.

    Args:
        cells: With what was kept beside them.
        facts: Of the requests of each trace.
        verdicts: Of the run.
        warm_up: As `Traffic` has it.
    """
    groups: dict[tuple[str, str, int, float], dict[Place, Kept]] = {}
    for one in cells:
        cell = one.cell
        at = cell.trace, cell.mode, cell.block_size, cell.load
        groups.setdefault(at, {})[one.place] = one
    said = {(v.trace, v.mode, v.block_size, v.load): v for v in verdicts}
    return [
        Traffic(
            first=next(iter(group.values())).cell,
            kept=group,
            facts=facts.get(at[0]),
            verdict=said.get(at),
            warm_up=warm_up,
        )
        for at, group in groups.items()
    ]
