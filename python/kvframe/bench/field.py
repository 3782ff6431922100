"""The policies that are compared: those that an engine can run, on one trace, in one mode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.outcomes import Counts, RequestFacts, RequestOutcomes
from kvframe.bench.policies import BASELINE, OPTIMUM

Rows = Mapping[Plan, Cell]
Outcomes = Mapping[Plan, RequestOutcomes]


@dataclass(frozen=True)
class Field:
    """What ran of one trace in one mode.

    Attributes:
        sizes: Blocks, in the order they were tried.
        seeds: Arrival seeds, likewise.
        online: Plans of each policy that an engine can run, by label, then by size and seed.
        opt: Plans of the optimum by size and seed.
        outcomes: By request, of all plans.
        facts: Of the trace's requests.
        first: The first request that counts; those before it warm the cache up.
    """

    sizes: Sequence[int]
    seeds: Sequence[int]
    online: Mapping[str, Mapping[tuple[int, int], Plan]]
    opt: Mapping[tuple[int, int], Plan]
    outcomes: Outcomes
    facts: RequestFacts
    first: int = 0

    @classmethod
    def of(cls, rows: Rows, outcomes: Outcomes, warm_up: float = 0.0) -> Field:
        """Of the finished plans; the first ``warm_up`` (a share) of the requests does not count."""
        sizes = list(dict.fromkeys(p.capacity for p in rows if p.capacity is not None))
        seeds = list(dict.fromkeys(p.source.arrival_seed for p in rows))
        online: dict[str, dict[tuple[int, int], Plan]] = defaultdict(dict)
        opt: dict[tuple[int, int], Plan] = {}
        for plan in rows:
            if plan.capacity is None:
                continue
            at = plan.capacity, plan.source.arrival_seed
            if plan.label == OPTIMUM:
                opt[at] = plan
            elif not plan.policy.replay_only:
                online[plan.label][at] = plan
        facts = next(iter(rows)).source.facts
        first = int(warm_up * len(facts.input_tokens))
        return cls(sizes, seeds, dict(online), opt, outcomes, facts, first)

    @property
    def _places(self) -> list[tuple[int, int]]:
        return [(size, seed) for size in self.sizes for seed in self.seeds]

    @cached_property
    def finished(self) -> list[str]:
        """Policies that ran at every size and seed."""
        every = set(self._places)
        return [label for label, plans in self.online.items() if set(plans) == every]

    @property
    def compared(self) -> bool:
        """Whether lru ran at every size."""
        return bool(self.sizes) and BASELINE in self.finished

    @cached_property
    def bounded(self) -> bool:
        """Whether the optimum ran at every size."""
        return set(self.opt) == set(self._places)

    # --- tokens -----------------------------------------------------------------------------------

    @cached_property
    def input_tokens(self) -> Counts:
        """Prompt tokens of the requests that count."""
        return self.facts.input_tokens[self.first :]

    @cached_property
    def whole(self) -> int:
        """Their sum."""
        return int(self.input_tokens.sum(dtype=np.int64))

    def hits(self, plan: Plan) -> Counts:
        """Hit tokens of the requests that count."""
        return self.outcomes[plan].hit_tokens[self.first :]

    @cached_property
    def _totals(self) -> dict[Plan, int]:
        plans = [*self.opt.values(), *(p for one in self.online.values() for p in one.values())]
        return {plan: int(self.hits(plan).sum(dtype=np.int64)) for plan in plans}

    def tokens(self, label: str, sizes: Iterable[int]) -> int:
        """Tokens hit, summed over sizes and seeds, each of which has as many tokens to hit."""
        plans = self.opt if label == OPTIMUM else self.online[label]
        wanted = set(sizes)
        return sum(self._totals[plan] for (size, _), plan in plans.items() if size in wanted)

    def rate(self, label: str, sizes: Sequence[int]) -> float:
        """The mean over some sizes, and all seeds, of the share of prompt tokens hit."""
        whole = self.whole * len(sizes) * len(self.seeds)
        return self.tokens(label, sizes) / whole if whole else 0.0

    @property
    def hits_anything(self) -> bool:
        return any(self._totals.values())

    # --- who leads --------------------------------------------------------------------------------

    def tops(self, sizes: Sequence[int]) -> list[str]:
        """Those that hit most over some sizes, lru first."""
        hits = {label: self.tokens(label, sizes) for label in self.finished}
        most = max(hits.values())
        found = [label for label, tokens in hits.items() if tokens == most]
        return sorted(found, key=lambda label: label != BASELINE)

    def unfinished_ahead(self) -> list[str]:
        """Policies that ran at some sizes only, and hit more there than those that ran at all."""
        best = self.tops(self.sizes)[0]
        found = []
        for label, plans in self.online.items():
            if label in self.finished:
                continue
            mine = sum(self._totals[plan] for plan in plans.values())
            if mine > sum(self._totals[self.online[best][at]] for at in plans):
                found.append(label)
        return found

    def gap(self, size: int) -> int:
        """Tokens that opt hits and lru does not; by the clock it may hit fewer. 0 without opt."""
        return self.tokens(OPTIMUM, [size]) - self.tokens(BASELINE, [size]) if self.bounded else 0

    @property
    def widest(self) -> int:
        """The size at which opt gains the most tokens over lru; without opt, any policy."""
        if self.bounded:
            return max(self.sizes, key=self.gap)
        return max(self.sizes, key=self._lead)

    def _lead(self, size: int) -> int:
        most = max(self.tokens(label, [size]) for label in self.finished)
        return most - self.tokens(BASELINE, [size])
