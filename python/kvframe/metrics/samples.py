"""Samples of the metric families: the counts of a manager, its tiers, publisher and shadows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from kvframe._core import __version__
from kvframe.manager import KVCacheManager
from kvframe.shadow import ShadowReport

MOST_OWNERS = 100
"""Owners of pins with samples of their own: those with the most blocks. Owners are free text, and
each would be a series of its own for ever."""

OTHER_OWNERS = "(others)"

OTHER_TENANTS = "(others)"
"""All together that are not in ``[[tenants]]``: only those there have series of their own."""


class Sample(NamedTuple):
    """A value of a family, with the values of its labels other than ``engine``."""

    family: str
    labels: tuple[str, ...]
    value: float


class TenantPages(Protocol):
    """What is read of a tenant in a tier: `kvframe.tiers.TierTenantRow`."""

    @property
    def tenant(self) -> str: ...

    @property
    def used(self) -> int: ...

    @property
    def cached(self) -> int: ...

    @property
    def floor(self) -> int: ...

    @property
    def evicted(self) -> int: ...

    @property
    def evicted_for_others(self) -> int: ...


class TierStats(Protocol):
    """What is read of tiers: `kvframe.tiers.Tiers`."""

    def stats(self) -> dict[str, dict[str, int]]: ...

    def tenants(self) -> Mapping[str, Sequence[TenantPages]]: ...


class BatchCounts(Protocol):
    """What is read of a publisher: `kvframe.wire.Publisher`."""

    def counts(self) -> tuple[int, int, int, int]: ...


class Shadows(Protocol):
    """What is read of shadows: `kvframe.shadow.ShadowSet`, or what ``attach`` gives."""

    def report(self) -> ShadowReport: ...


COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "requests": ("requests_total", ("allocated",)),
    "resumed": ("requests_total", ("resumed",)),
    "refused": ("requests_total", ("refused",)),
    "requests_with_hit": ("requests_with_hit_total", ()),
    "prompt_tokens": ("prefix_cache_query_tokens_total", ("new",)),
    "resumed_tokens": ("prefix_cache_query_tokens_total", ("resumed",)),
    "hit_tokens": ("prefix_cache_hit_tokens_total", ("new",)),
    "resumed_hit_tokens": ("prefix_cache_hit_tokens_total", ("resumed",)),
    "lookup_blocks": ("prefix_cache_query_blocks_total", ()),
    "hit_blocks": ("prefix_cache_hit_blocks_total", ()),
    "unread": ("unread_requests_total", ()),
    "unread_tokens": ("unread_tokens_total", ("new",)),
    "resumed_unread_tokens": ("unread_tokens_total", ("resumed",)),
    "joined_tokens": ("joined_tokens_total", ()),
    "allocated": ("block_events_total", ("allocated",)),
    "freed": ("block_events_total", ("freed",)),
    "taken": ("block_events_total", ("taken",)),
    "returned": ("block_events_total", ("returned",)),
    "stored": ("block_events_total", ("stored",)),
    "duplicates": ("block_events_total", ("duplicates",)),
    "remapped": ("block_events_total", ("remapped",)),
    "forks": ("forks_total", ()),
    "copies": ("copied_blocks_total", ()),
    "copied_tokens": ("copied_tokens_total", ()),
    "failed_copies": ("failed_copies_total", ()),
    "loads": ("loads_total", ()),
    "loaded_tokens": ("loaded_tokens_total", ()),
    "leases": ("leases_total", ()),
    "leased_tokens": ("leased_tokens_total", ()),
    "collisions": ("key_collisions_total", ()),
    "peak_blocks": ("peak_blocks", ()),
    "waiting_blocks": ("waiting_blocks", ()),
    "live_sequences": ("sequences", ()),
    "bytes_used": ("cache_used_bytes", ()),
    "bytes_total": ("cache_size_bytes", ()),
}
"""Where the counters of `Stats.counters` go that need no more than a name."""

_TRANSFERS = {
    "stored": ("store", "done"),
    "failed_stores": ("store", "failed"),
    "loaded": ("load", "done"),
    "failed_loads": ("load", "failed"),
    "cancelled": ("any", "cancelled"),
    "late": ("any", "late"),
    "refused": ("any", "refused"),
}
_STATES = ("free", "cached", "owned", "moving")
_MOVED = "moved"


def samples(
    kv: KVCacheManager,
    tiers: TierStats | None = None,
    publisher: BatchCounts | None = None,
    shadows: Shadows | None = None,
) -> Iterator[Sample]:
    """Every sample, read from the manager and the rest at the time of the call."""
    of_shadows = () if shadows is None else _of_shadows(shadows.report())
    for name, labels, value in (*_all(kv, tiers, publisher), *of_shadows):
        yield Sample(f"kvframe_{name}", labels, value)


def by_family(found: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Samples by their family's name."""
    families: dict[str, list[Sample]] = {}
    for sample in found:
        families.setdefault(sample.family, []).append(sample)
    return families


def _all(
    kv: KVCacheManager, tiers: TierStats | None, publisher: BatchCounts | None
) -> Iterator[Sample]:
    counters = kv.stats.counters()
    yield from _of_pool(kv)
    yield from _of_pins(kv)
    yield from _of_tickets(kv)
    yield from _of_tenants(kv)
    for key, (name, labels) in COUNTERS.items():
        if key in counters:
            yield Sample(name, labels, counters[key])
    yield Sample("prefix_cache_hit_share_total", (), counters["hit_share_ppm"] / 1e6)
    misses = kv.stats.miss_reasons()
    if misses is not None:
        for reason, count in misses.requests.items():
            yield Sample("prefix_ends_total", (reason.name.lower(),), count)
        for reason, count in misses.tokens.items():
            yield Sample("prefix_missed_tokens_total", (reason.name.lower(),), count)
    yield from _of_policies(kv, counters)
    if tiers is not None:
        yield from _of_tiers(tiers.stats())
        yield from _of_tenants_in_tiers(tiers)
    if publisher is not None:
        outcomes = ("published", "dropped", "replayed", "refused")
        for outcome, count in zip(outcomes, publisher.counts(), strict=True):
            yield Sample("event_batches_total", (outcome,), count)


def _of_pool(kv: KVCacheManager) -> Iterator[Sample]:
    options = kv.inspect.options()
    names = (__version__, options["policy"], options["admission"], options["index"])
    yield Sample("info", names, 1)
    yield Sample("config_version", (), kv.settings.version)
    yield Sample("cache_usage_ratio", (), kv.pressure.usage())
    yield Sample("pressure_level", (), int(kv.pressure.level()))
    counts = kv.counts()
    for state in ("free", "cached", "referenced"):
        yield Sample("blocks", (state,), getattr(counts, state))
    yield Sample("block_tokens", (), kv.block_size)


def _of_tickets(kv: KVCacheManager) -> Iterator[Sample]:
    open_ = kv.inspect.tickets()
    for kind in ("copies", "load", "lease"):
        of_kind = [ticket for ticket in open_ if ticket.kind == kind]
        yield Sample("tickets", (kind,), len(of_kind))
        yield Sample("ticket_blocks", (kind,), sum(ticket.blocks for ticket in of_kind))
        if of_kind:
            yield Sample("oldest_ticket", (kind,), min(ticket.ticket for ticket in of_kind))


def _of_pins(kv: KVCacheManager) -> Iterator[Sample]:
    held: dict[str, tuple[int, int]] = {}
    for info in kv.pins.held():
        pins, blocks = held.get(info.owner, (0, 0))
        held[info.owner] = pins + 1, blocks + info.blocks
    ranked = sorted(held.items(), key=lambda item: (-item[1][1], item[0]))
    rest = ranked[MOST_OWNERS:]
    if rest:
        totals = sum(pins for _, (pins, _) in rest), sum(blocks for _, (_, blocks) in rest)
        ranked = [*ranked[:MOST_OWNERS], (OTHER_OWNERS, totals)]
    for owner, (pins, blocks) in ranked:
        yield Sample("pins", (owner,), pins)
        yield Sample("pinned_blocks", (owner,), blocks)


def _of_tenants(kv: KVCacheManager) -> Iterator[Sample]:
    for row in kv.tenants.rows():
        tenant = row.tenant or OTHER_TENANTS
        yield Sample("tenant_blocks", (tenant, "cached"), row.cached)
        yield Sample("tenant_blocks", (tenant, "referenced"), row.referenced)
        yield Sample("tenant_floor_blocks", (tenant,), row.floor)
        yield Sample("tenant_requests_total", (tenant, "allocated"), row.requests)
        yield Sample("tenant_requests_total", (tenant, "refused"), row.refused)
        yield Sample("tenant_query_tokens_total", (tenant,), row.prompt_tokens)
        yield Sample("tenant_hit_tokens_total", (tenant,), row.hit_tokens)
        yield Sample("tenant_evictions_total", (tenant, "own"), row.evicted)
        yield Sample("tenant_evictions_total", (tenant, "others"), row.evicted_for_others)


def _of_policies(kv: KVCacheManager, counters: Mapping[str, int]) -> Iterator[Sample]:
    options = kv.inspect.options()
    eviction, admission = options["policy"], options["admission"]
    prefix = kv.inspect.resolved.prefix.name
    ahead, taken = counters["evictions_ahead"], counters["evictions_for_taken"]
    causes = {"ahead": ahead, "taken": taken, "sequence": counters["evictions"] - ahead - taken}
    for cause, count in causes.items():
        yield Sample("evictions_total", (eviction, cause), count)
    failures = {
        ("eviction", eviction): counters["policy_failures"],
        ("admission", admission): counters["admission_failures"],
        ("prefix", prefix): kv.stats.prefix_stats()["prefix_failures"],
    }
    for labels, count in failures.items():
        yield Sample("policy_failures_total", labels, count)
    yield Sample("policy_fallbacks_total", (eviction,), counters["policy_fallbacks"])
    for verdict in ("kept", "dropped", "lowered"):
        yield Sample(
            "admission_blocks_total", (admission, verdict), counters[f"admission_{verdict}"]
        )
    names = {"eviction": eviction, "admission": admission, "prefix": prefix}
    for kind, took in kv.stats.policy_times().items():
        yield Sample("policy_decisions_total", (kind, names[kind]), took.decisions)
        yield Sample("policy_seconds_total", (kind, names[kind]), took.seconds)


def _of_tiers(told: Mapping[str, Mapping[str, int]]) -> Iterator[Sample]:
    for tier, counters in told.items():
        if tier == _MOVED:
            for direction, count in counters.items():
                yield Sample("moved_total", (direction,), count)
            continue
        for key, count in counters.items():
            if key in _STATES:
                yield Sample("tier_pages", (tier, key), count)
            elif key in _TRANSFERS:
                yield Sample("tier_transfers_total", (tier, *_TRANSFERS[key]), count)
            elif key == "evicted":
                yield Sample("tier_evictions_total", (tier,), count)
            else:
                yield Sample("tier_events_total", (tier, key), count)


def _of_tenants_in_tiers(tiers: TierStats) -> Iterator[Sample]:
    for tier, rows in tiers.tenants().items():
        for row in rows:
            tenant = row.tenant or OTHER_TENANTS
            yield Sample("tier_tenant_pages", (tier, tenant, "cached"), row.cached)
            yield Sample("tier_tenant_pages", (tier, tenant, "owned"), row.used - row.cached)
            yield Sample("tier_tenant_floor_pages", (tier, tenant), row.floor)
            yield Sample("tier_tenant_evictions_total", (tier, tenant, "own"), row.evicted)
            sake = tier, tenant, "others"
            yield Sample("tier_tenant_evictions_total", sake, row.evicted_for_others)


def _of_shadows(report: ShadowReport) -> Iterator[Sample]:
    for shadow in report.shadows:
        labels = shadow.policy, str(shadow.capacity)
        yield Sample("shadow_query_tokens_total", labels, shadow.query_tokens)
        yield Sample("shadow_hit_tokens_total", labels, shadow.hit_tokens)
    yield Sample("shadow_trusted", (), float(report.doubt is None))
