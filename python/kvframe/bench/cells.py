"""A cell: one trace, replayed once, under one policy with one capacity in one mode."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from kvframe.bench.admissions import KEEP_ALL, Admission
from kvframe.bench.configured import Configured
from kvframe.bench.content import Content
from kvframe.bench.matchers import OWN, Matcher
from kvframe.bench.metrics import Metric, Served
from kvframe.bench.outcomes import RequestOutcomes
from kvframe.bench.policies import Choice
from kvframe.bench.server.tiers import ServedTiers
from kvframe.bench.traces import Source


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a cell, as they appear in JSON; the field order is the column order of CSV.

    Tokens and blocks are counts over the whole trace from a cold cache. ``*_last_half`` counts
    the requests with index >= n // 2. ``after_gap_hit_tokens`` lie in cached blocks behind the
    first missing one; no request uses them, and no hit number counts them. ``block_accesses``
    counts the ids of all requests in that mode. ``seconds`` is the replay alone,
    ``prepare_seconds`` what was made ready once for all cells of a mode. ``gap_closed`` is (hit -
    lru) / (opt - lru) in tokens, None where lru or opt did not run at this capacity or left no gap.
    ``admission`` decided what became findable; where it is not ``always``, ``policy`` names it as
    well (``lru+second-use``). ``admission_dropped`` blocks did not become findable. ``prefix``
    matched prompts; where it is not ``hash``, ``policy`` names it as well (``lru/min-hit``). In
    timed mode ``rejected`` requests were larger than the cache, and the two times are from arrival
    to the first token; ``load`` divides the trace's times there, and ``arrival_seed`` drew the
    arrivals anew where it is not 0. ``metrics`` are those of `kvframe.bench.metrics`; None where
    there is nothing to count. ``misses`` says in tokens why prompt tokens were computed
    (`kvframe.bench.misses`), None where the optimum did not run at this capacity. ``tiers`` names
    those below the pool; ``tier_hit_tokens`` were found in each, and in the ``pool``. Such a cell
    stands beside the optimum of the pool alone: it has no ``gap_closed`` and no ``misses``.
    """

    trace: str
    policy: str
    mode: str
    block_size: int
    capacity_blocks: int | None
    requests: int
    input_tokens: int
    hit_tokens: int
    input_tokens_last_half: int
    hit_tokens_last_half: int
    token_hit_rate: float
    after_gap_hit_tokens: int
    evictions: int
    block_accesses: int
    seconds: float
    prepare_seconds: float
    block_hit_rate: float | None = None
    mean_request_hit_rate: float | None = None
    gap_closed: float | None = None
    admission: str = KEEP_ALL
    admission_dropped: int = 0
    prefix: str = OWN
    rejected: int = 0
    mean_ttft_seconds: float | None = None
    p95_ttft_seconds: float | None = None
    load: float = 1.0
    arrival_seed: int = 0
    metrics: dict[str, float | None] = {}
    misses: dict[str, int] | None = None
    tiers: str = ""
    tier_hit_tokens: dict[str, int] = {}


class Measured(NamedTuple):
    """A cell, what it did for each request, and what the cache held where that was asked for."""

    cell: Cell
    outcomes: RequestOutcomes
    content: Content | None = None

    def with_metrics(self, plan: "Plan", metrics: Iterable[Metric]) -> "Measured":
        """The same with these metrics in the cell."""
        served = Served(plan.source.facts, self.outcomes, self.cell.block_size)
        made = {metric.name: metric(served) for metric in metrics}
        found = {name: None if value != value else value for name, value in made.items()}
        return self._replace(cell=msgspec.structs.replace(self.cell, metrics=found))


@dataclass(frozen=True)
class Plan:
    """A cell to run. ``asked`` is False for a row that only a human-readable table adds;
    ``content`` asks for what the cache holds over time, which changes no number.
    """

    source: Source
    policy: Choice
    mode: str
    capacity: int | None
    asked: bool = True
    admission: Admission | None = None
    matcher: Matcher | None = None
    content: bool = False
    configured: Configured | None = None
    tiers: ServedTiers | None = None

    @property
    def label(self) -> str:
        """The policies of the pool, and the tiers below it where there are such."""
        return f"{self.above} over {self.tiers.label}" if self.tiers else self.above

    @property
    def above(self) -> str:
        """The eviction policy, with admission policy and prefix matcher where there are such."""
        gate = "" if self.admission is None else f"+{self.admission.label}"
        return self.policy.label + gate + ("" if self.matcher is None else f"/{self.matcher.label}")

    @property
    def group(self) -> tuple[str, str, int, float]:
        """What is compared with each other: one trace in one mode, block size and load."""
        return self.source.name, self.mode, self.source.trace.block_size, self.source.load

    def __str__(self) -> str:
        size = "any capacity" if self.capacity is None else f"{self.capacity} blocks"
        seed = f" seed {self.source.arrival_seed}" if self.source.arrival_seed else ""
        load = f" load {self.source.load:g}" if self.source.load != 1 else ""
        return f"{self.source.name} {self.mode}{load}{seed} {self.label} {size}"

    def identity(self, build: str) -> dict[str, object]:
        """Everything that decides the numbers; equal identities give equal cells.

        ``build`` names the replaying program: kvframe's version and its compiled core.
        """
        source = self.source
        size = source.trace.block_size
        varied = {"load": source.load, "arrival_seed": source.arrival_seed}
        return {
            "trace_sha256": self.source.sha256,
            "block_size": self.source.trace.block_size,
            "time_unit": self.source.time_unit,
            "policy": self.policy.name,
            "policy_version": self.policy.version,
            "policy_source": self.policy.source_hash,
            "options": self.policy.option_values,
            "capacity_blocks": self.capacity,
            "mode": self.mode,
            "kvframe": build,
            **(varied if (source.load, source.arrival_seed) != (1, 0) else {}),
            **({} if self.admission is None else {"admission": self.admission.identity}),
            **({} if self.matcher is None else {"prefix": self.matcher.identity}),
            **({} if self.configured is None else {"core": self.configured.identity(size)}),
            **({} if self.tiers is None else {"tiers": self.tiers.identity}),
        }


def identity_hash(identity: dict[str, object]) -> str:
    """32 hex digits that stay the same on every machine and Python."""
    text = msgspec.json.encode(identity, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:32]
