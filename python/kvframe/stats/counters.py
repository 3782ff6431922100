"""``kv.stats``: the statistics of a manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, NoReturn

from kvframe._core import Manager as Core
from kvframe.config import Resolved
from kvframe.prompts import Prompts
from kvframe.renamed import Room
from kvframe.results import RequestUsage
from kvframe.stats.rates import (
    BlockLifetimes,
    HitRates,
    Miss,
    Misses,
    MissReason,
    hit_rates,
    miss_of,
)

GAUGES = frozenset({"peak_blocks", "bytes_used", "bytes_total", "live_sequences", "waiting_blocks"})
"""Counters that say what is now, and may fall."""

RENAMED = {
    "admissions": "requests",
    "admissions_with_hit": "requests_with_hit",
    "lent": "taken",
}
"""Counters, and states of a snapshot's blocks, by their old names."""


class Counters(dict[str, int]):
    """Counters by name."""

    def __missing__(self, name: str) -> NoReturn:
        now = RENAMED.get(name)
        raise KeyError(f"{name} is called {now}" if now else name)


class PolicyTime(NamedTuple):
    """What a policy's decisions took.

    Attributes:
        decisions: How many have returned.
        seconds: What they took, together.
    """

    decisions: int
    seconds: float


class Stats(Room):
    """``kv.stats``: counters, hit rates, why prefixes ended where they did."""

    _instead = "kv.stats.counters()"

    def __init__(
        self, core: Core, resolved: Resolved, prompts: Prompts, drivers: Mapping[str, object]
    ) -> None:
        self._core, self._resolved, self._prompts = core, resolved, prompts
        self._drivers = drivers

    def counters(self) -> dict[str, int]:
        """Counters since the start; requests are counted once, at admission.

        Where ``[model]`` or ``page_bytes`` says what a block takes, ``bytes_used`` are the bytes of
        blocks in use (cached ones are not, as in `PressureRoom.usage`), and ``bytes_total`` those
        of the pool.
        """
        stats = Counters(self._core.stats())
        if (each := self._resolved.block_bytes) is not None:
            free, cached, _, total = self._core.counts()
            usable = total - self._resolved.config.cache.null_block
            stats["bytes_used"] = (usable - free - cached) * each
            stats["bytes_total"] = usable * each
        return stats

    def kinds(self) -> dict[str, Literal["counter", "gauge"]]:
        """The kind of each entry of `counters`: a counter only grows, a gauge may fall."""
        return {name: "gauge" if name in GAUGES else "counter" for name in self.counters()}

    def policy_times(self) -> dict[str, PolicyTime]:
        """The time of policies in Python that have a ``budget_ms``, by kind; others have none."""
        times = {}
        for kind, found in self._drivers.items():
            drivers = found if isinstance(found, list) else [found]
            budgets = [getattr(driver, "budget", None) for driver in drivers]
            told = [budget for budget in budgets if budget is not None]
            if told:
                decisions = sum(budget.decisions for budget in told)
                times[kind] = PolicyTime(decisions, sum(budget.seconds for budget in told))
        return times

    def reset_peak(self) -> int:
        """Count ``peak_blocks`` of `counters` from what is in use now; returns the peak so far."""
        return self._core.reset_peak()

    def hit_rates(self) -> HitRates | None:
        """Hit rates since the start and of the last 1,000 requests; None with statistics off."""
        kept = self._core.prefix_statistics()
        return None if kept is None else hit_rates(self._core.stats(), kept[2])

    def miss_reasons(self) -> Misses | None:
        """Why prefixes ended where they did, counted; None with statistics off."""
        kept = self._core.prefix_statistics()
        if kept is None:
            return None
        tally, groups, _ = kept
        rows = {MissReason[name.upper()]: counts for name, counts in tally.items()}
        return Misses(
            requests={reason: counts[0] for reason, counts in rows.items()},
            tokens={reason: counts[1] for reason, counts in rows.items()},
            groups=tuple(groups),
            unit=int(self._core.options()["reusable_unit"]),
        )

    def miss_reason(self, seq: int) -> Miss | None:
        """Why the admission of a live sequence found no more; None with statistics off."""
        return miss_of(self._core.miss_reason(seq))

    def block_lifetimes(self) -> BlockLifetimes | None:
        """How long sampled blocks live; None unless ``observe.sample`` is set."""
        kept = self._core.block_lifetimes()
        return None if kept is None else BlockLifetimes(*kept)

    def request_usage(self, seq: int) -> RequestUsage:
        """What a running request cost so far; ask before it is released."""
        return RequestUsage(*self._core.request_usage(seq))

    def prefix_stats(self) -> dict[str, int]:
        """How often a prefix matcher in Python failed, and how many of its answers were wrong."""
        matcher = self._prompts.matcher
        if matcher is None:
            return {"prefix_failures": 0, "prefix_wrong": 0}
        return {"prefix_failures": matcher.failures, "prefix_wrong": matcher.wrong}

    def __repr__(self) -> str:
        counted = self._core.stats()
        return (
            f"Stats({counted['requests']} requests, {counted['hit_tokens']} of "
            f"{counted['prompt_tokens']} prompt tokens found, {counted['evictions']} evictions)"
        )
