"""Every metric: its name, kind, labels and help. Each has the label ``engine`` first."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Family(NamedTuple):
    """A metric.

    Attributes:
        name: As in PromQL; that of a counter ends with ``_total``.
        kind: The type of the metric: counter or gauge.
        labels: Beside ``engine``.
        help: What it counts, with its unit.
    """

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(f"kvframe_{name}_total", "counter", labels, text)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(f"kvframe_{name}", "gauge", labels, text)


FAMILIES: tuple[Family, ...] = (
    _gauge("info", "1; its labels name what runs.", "version", "eviction", "admission", "index"),
    _gauge("config_version", "Configuration in force: 1 at the start, one more with each change."),
    # --- the pool
    _gauge("cache_usage_ratio", "Share of the pool's blocks in use; cached blocks are not."),
    _gauge("pressure_level", "0 normal, 1 high, 2 critical."),
    _gauge("blocks", "Blocks of the pool: free, cached or referenced.", "state"),
    _gauge("peak_blocks", "Most blocks in use at once."),
    _gauge("waiting_blocks", "Blocks in use that only wait for a fence."),
    _gauge("block_tokens", "Tokens of a block."),
    _gauge("cache_used_bytes", "Bytes of blocks in use, where the size of a block is known."),
    _gauge("cache_size_bytes", "Bytes of the pool, where the size of a block is known."),
    _gauge("sequences", "Live sequences."),
    _gauge("pins", "Pins held, by their owner.", "owner"),
    _gauge("pinned_blocks", "Blocks that pins keep, by their owner.", "owner"),
    _gauge("tickets", "Tickets that are not settled: of copies, of a load, of a lease.", "kind"),
    _gauge("ticket_blocks", "Blocks that these keep.", "kind"),
    _gauge("oldest_ticket", "Number of the oldest of these, where there is one.", "kind"),
    # --- tenants; those that are not configured are "(others)" together
    _gauge("tenant_blocks", "Blocks of a tenant: cached or referenced.", "tenant", "state"),
    _gauge("tenant_floor_blocks", "Blocks that no other tenant can take from it.", "tenant"),
    _counter("tenant_requests", "Its requests: allocated; refused calls.", "tenant", "outcome"),
    _counter("tenant_query_tokens", "Prompt tokens of its requests.", "tenant"),
    _counter("tenant_hit_tokens", "Of these, tokens found in the cache.", "tenant"),
    _counter(
        "tenant_evictions", "Its blocks evicted: for its own sake, or others'.", "tenant", "sake"
    ),
    # --- requests and the prefix cache
    _counter(
        "requests", "Requests: allocated, resumed after a preemption; refused calls.", "outcome"
    ),
    _counter("requests_with_hit", "Requests that found at least one token."),
    _counter("prefix_cache_query_tokens", "Prompt tokens, of new and resumed requests.", "request"),
    _counter("prefix_cache_hit_tokens", "Of these, tokens found in the cache.", "request"),
    _counter("prefix_cache_query_blocks", "Full blocks that lookups covered."),
    _counter("prefix_cache_hit_blocks", "Of these, blocks found."),
    _counter("prefix_cache_hit_share", "Share found of each prompt, summed."),
    _counter("unread_requests", "Requests that did not read the cache."),
    _counter("unread_tokens", "Their prompt tokens, of new and resumed requests.", "request"),
    _counter("prefix_ends", "Requests, by why no more of the prompt was found.", "reason"),
    _counter("prefix_missed_tokens", "Prompt tokens not found, by the same.", "reason"),
    _counter("joined_tokens", "Tokens left to a computation that was in flight."),
    # --- blocks
    _counter(
        "evictions",
        "Blocks evicted, by the policy: for a sequence, for one taken by itself, or ahead of need.",
        *("policy", "cause"),
    ),
    _counter(
        "block_events",
        "Blocks: allocated, freed, taken, returned, stored, duplicates, remapped.",
        "event",
    ),
    _counter("forks", "Sequences made by a fork."),
    _counter("copied_blocks", "Blocks copied on the device before a write."),
    _counter("copied_tokens", "Tokens copied on the device before a write."),
    _counter("failed_copies", "Pages that were not filled, because a copy failed."),
    _counter("loads", "Loads that have ended."),
    _counter("loaded_tokens", "Tokens whose KV loads brought."),
    _counter("leases", "Prefixes held for a reader elsewhere."),
    _counter("leased_tokens", "Their tokens."),
    _counter("key_collisions", "Keys that matched although the tokens did not."),
    # --- policies
    _counter("policy_failures", "Decisions in which a policy failed.", "kind", "policy"),
    _counter("policy_fallbacks", "Decisions that the built-in order took instead.", "policy"),
    _counter("policy_decisions", "Decisions timed: of policies with a budget.", "kind", "policy"),
    _counter("policy_seconds", "Seconds that these decisions took.", "kind", "policy"),
    _counter("admission_blocks", "Blocks by the admission policy's verdict.", "policy", "verdict"),
    # --- tiers
    _gauge(
        "tier_tenant_pages",
        "Pages of a tenant in a tier, where tenants have shares: cached or owned.",
        *("tier", "tenant", "state"),
    ),
    _gauge(
        "tier_tenant_floor_pages",
        "Pages of a tier that no other tenant can take from it.",
        *("tier", "tenant"),
    ),
    _counter(
        "tier_tenant_evictions",
        "Its pages evicted from a tier: for its own sake, or others'.",
        *("tier", "tenant", "sake"),
    ),
    _gauge("tier_pages", "Pages of a tier: free, cached, owned, moving.", "tier", "state"),
    _counter(
        "tier_transfers",
        "Pages: store, load or any; done, failed, cancelled, late or refused.",
        "tier",
        "direction",
        "outcome",
    ),
    _counter("tier_evictions", "Pages that a tier evicted.", "tier"),
    _counter("tier_events", "Whatever else a tier counts, by its name there.", "tier", "event"),
    _counter("moved", "Pages and events between tiers, by their name in Tiers.stats.", "direction"),
    # --- shadows
    _counter(
        "shadow_query_tokens",
        "Prompt tokens that a shadow has served, by its policy and blocks.",
        *("policy", "blocks"),
    ),
    _counter("shadow_hit_tokens", "Of these, tokens that its pool had.", "policy", "blocks"),
    _gauge("shadow_trusted", "1 while the shadows' numbers can be trusted, else 0."),
    # --- KV events
    _counter("event_batches", "Batches: published, dropped, replayed, refused.", "outcome"),
)

BY_NAME = {family.name: family for family in FAMILIES}
