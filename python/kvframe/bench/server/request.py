"""What ``kvframe bench serve`` is asked for, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

from msgspec import Meta

from kvframe.bench.server.below import FILLS, HIT_REFRESHES, STORAGE_PREFETCHES
from kvframe.bench.server.cells import LAST_ADMITTED, PREEMPTIONS
from kvframe.pressure import PreemptionRule

POLICIES = ("lru", "foresight", "opt")
"""Those that run where none is named, and no configuration either."""
PREFETCH = 8
"""Requests at the front of the queue whose pages are brought to host memory while they wait."""
FORMATS = ("table", "json", "csv")
ORDERS = (
    "fcfs",
    "priority",
    "shortest",
    "longest",
    "shortest-output",
    "longest-output",
    "shortest-total",
    "longest-total",
    "longest-prefix",
    "fewest-uncached",
)
PREEMPTION_ORDERS = get_args(PreemptionRule)
CAPACITIES = ("2000",)
"""Blocks, where neither a capacity nor a card is named."""
MOST = 2**31
"""Of sequences, tokens and requests."""
Count = Annotated[int, Meta(ge=1, le=MOST)]
Whole = Annotated[int, Meta(ge=0, le=MOST)]


@dataclass(frozen=True)
class ServerRequest:
    """What was asked, as text; every sequence may hold comma lists."""

    traces: Sequence[str] = ("conversation",)
    policies: Sequence[str] = ()
    admissions: Sequence[str] = ()
    matchers: Sequence[str] = ()
    capacities: Sequence[str] = ()
    loads: Sequence[str] = ("1",)
    profile: str = "roofline"
    card: str | None = None
    model_shape: str | None = None
    parallel: str | None = None
    cascade_attention: bool = False
    config: Path | None = None
    tiers: Sequence[str] = ()
    prefetch: Whole = PREFETCH
    promote_fill: str = FILLS[0]
    storage_prefetch: str = STORAGE_PREFETCHES[0]
    live_writes: bool = False
    evict_backed_first: bool = False
    hit_refresh: str = HIT_REFRESHES[0]
    max_num_seqs: Count = 256
    max_num_batched_tokens: Count = 8192
    long_prefill_token_threshold: Whole = 0
    chunked_prefill: bool = True
    order: str = "fcfs"
    class_priority: str | None = None
    class_share: str | None = None
    closed_loop: bool = False
    cache_generated: bool = True
    preemption: str = PREEMPTIONS[0]
    preemption_order: str = LAST_ADMITTED
    layerwise: bool = False
    prefetch_sessions: str | None = None
    shared_tiers: Sequence[str] = ()
    links: Sequence[str] = ()
    join: bool = False
    tell_next_use: bool = False
    replicas: Sequence[str] = ("1",)
    routings: Sequence[str] = ("round-robin",)
    event_delay: str = "0ms"
    event_loss: Annotated[float, Meta(ge=0, le=1)] = 0.0
    tell_copies: bool = False
    disaggregate: str | None = None
    decode_routing: str | None = None
    peer_link: str | None = None
    speculate: str | None = None
    flood: str | None = None
    sla: str | None = None
    requests: Path | None = None
    formats: Sequence[str] = ("table",)
    block_size: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    time_unit: str | None = None
    trace_format: str | None = None
    sort: bool = False
    tokenizer: str | None = None
    quiet: bool = False
