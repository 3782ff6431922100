"""A server on a trace: its options, and what users felt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from kvframe import _core
from kvframe.bench.admissions import Admission
from kvframe.bench.configured import Configured
from kvframe.bench.matchers import Matcher
from kvframe.bench.policies import Choice
from kvframe.bench.server.below import AS_TIERS_DO, Moves, Returns
from kvframe.bench.server.fleet import (
    ALONE,
    AT_ONCE,
    FEWEST,
    Feed,
    Fleet,
    Handover,
    PeerLink,
    Routing,
    imbalance,
)
from kvframe.bench.server.profiles import Profile
from kvframe.bench.server.sla import Sla
from kvframe.bench.server.summary import FINISHED, REJECTED, Times, kept, quantiles, times
from kvframe.bench.server.tiers import ServedTiers
from kvframe.bench.traces import Source

DRAIN = 0.1
"""A server that still works for more than this share of the arrivals' time after the last of them,
while requests wait, was saturated."""


LAST_ADMITTED = "last-admitted"
"""Which sequence is preempted where none is asked for."""
NEVER = "never"
PREEMPTIONS = ("recompute", "swap", "auto", NEVER)
"""What becomes of a preempted sequence where there is a host tier."""


@dataclass(frozen=True)
class ServerPlan:
    """A simulation to run. Another ``time_factor`` than 1 is there to test the ranking."""

    source: Source
    policy: Choice
    capacity: int
    load: float
    time_factor: float = 1.0
    admission: Admission | None = None
    matcher: Matcher | None = None
    tiers: ServedTiers | None = None
    fleet: Fleet = ALONE

    @property
    def label(self) -> str:
        """The eviction policy, and what differs besides."""
        return f"{self.above} over {self.tiers.label}" if self.tiers else self.above

    @property
    def above(self) -> str:
        """The policies of the pool."""
        gate = "" if self.admission is None else f"+{self.admission.label}"
        return self.policy.label + gate + ("" if self.matcher is None else f"/{self.matcher.label}")

    @property
    def group(self) -> tuple[str, int, float, Fleet]:
        """Where policies are compared: one trace, one capacity, one load, one fleet."""
        return self.source.name, self.capacity, self.load, self.fleet


@dataclass(frozen=True)
class Server:
    """What is the same for all simulations of a run."""

    profile: Profile
    sla: Sla | None
    max_num_seqs: int
    max_num_batched_tokens: int
    order: str
    long_prefill_token_threshold: int = 0
    chunked_prefill: bool = True
    class_priority: dict[str, int] = field(default_factory=dict)
    class_share: dict[str, float] = field(default_factory=dict)
    closed_loop: bool = False
    cache_generated: bool = True
    token_bytes: int = 0
    moves: Moves = AS_TIERS_DO
    configured: Configured | None = None
    feed: Feed = AT_ONCE
    preemption: str = PREEMPTIONS[0]
    preemption_order: str = LAST_ADMITTED
    load_layers: int = 0
    returns: Returns | None = None
    join: bool = False
    tell_next_use: bool = False
    speculation: dict[str, Any] | None = None
    handover: Handover | None = None
    decode_routing: Routing = FEWEST
    peer_link: PeerLink | None = None


class ServerCell(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a simulation, as they appear in JSON; in this order they are columns of CSV.

    Times are in seconds; means and percentiles (nearest rank) are over finished requests, those of
    ``itl`` over all tokens but the first of each answer. ``makespan`` is from the first arrival to
    the last token. ``utilisation`` is the share of it in which a step ran, ``kv_utilisation`` the
    mean share of blocks with an owner. ``mean_running`` and ``mean_waiting`` count requests: from
    their first block to their last token, and from arrival to their first block.
    ``prefill_tokens`` were computed of prompts and again after preemptions, ``decode_tokens`` one a
    sequence and step, and drafts that were right; ``wrong_drafts`` come on top. ``joined_tokens``
    another request was computing, and this one waited for. ``reused_tokens`` were found in the
    cache; ``token_hit_rate`` is what of them was found when requests first came in, over their
    prompts. ``goodput`` counts requests a second that kept ``--sla``. ``seconds`` is what the
    simulation took.

    ``tiers`` names the tiers below the pool. ``tier_hit_tokens`` were found in each, and in the
    ``pool``, when requests first came in. Bytes are those of each tier's link, towards the pool and
    away from it. From ``tier_break_even`` tokens on a load is faster than computing them, None if
    never. ``tier_dropped_pages`` left a tier while the one below lacked them. In
    ``stalled_seconds`` no step could run, since blocks were being copied out of the pool.
    ``tier_others_tokens`` were read from a tier that replicas share, where another had put them.
    ``ahead_tokens`` came to the pool before their session's next turn, which found
    ``ahead_used_tokens`` of them there.
    ``tier_bytes`` are their sizes, of all replicas together. ``swaps`` are the preemptions after
    which a sequence came back from host memory, with ``swapped_bytes`` over its link both ways.

    Of several replicas, the numbers are those of all together: ``capacity_blocks`` is that of each,
    utilisations are means, ``peak_waiting`` is the longest queue of one. ``imbalance`` is what the
    busiest computed, in times of the mean, of those that the router chooses among.
    ``promised_tokens`` were believed to be cached where it sent the requests, ``messages_lost`` of
    the events never reached it.
    ``peer_tokens`` came from pools of other replicas when requests first came in, ``peer_bytes`` in
    all.
    ``prefill_replicas`` more compute prompts alone, and ``handed_bytes`` of KV went from them to
    the others.
    """

    trace: str
    policy: str
    capacity_blocks: int
    block_size: int
    load: float
    profile: str
    time_factor: float
    requests: int
    finished: int
    rejected: int
    unfinished: int
    saturated: bool
    token_hit_rate: float
    ttft_mean: float | None
    ttft_p50: float | None
    ttft_p90: float | None
    ttft_p99: float | None
    itl_mean: float | None
    itl_p50: float | None
    itl_p90: float | None
    itl_p99: float | None
    e2e_mean: float | None
    e2e_p50: float | None
    e2e_p90: float | None
    e2e_p99: float | None
    makespan: float
    drain: float
    requests_per_second: float
    output_tokens_per_second: float
    goodput: float | None
    utilisation: float
    kv_utilisation: float | None
    mean_running: float
    mean_waiting: float
    peak_waiting: int | None
    preemptions: int
    prefill_tokens: int
    decode_tokens: int
    reused_tokens: int
    recomputed_tokens: int
    evictions: int
    steps: int
    seconds: float
    tiers: str = ""
    tier_hit_tokens: dict[str, int] = {}
    tier_read_bytes: dict[str, float] = {}
    tier_written_bytes: dict[str, float] = {}
    tier_break_even: dict[str, int | None] = {}
    tier_dropped_pages: int = 0
    stalled_seconds: float = 0.0
    tier_others_tokens: dict[str, int] = {}
    ahead_tokens: int = 0
    ahead_used_tokens: int = 0
    tier_bytes: dict[str, float] = {}
    swaps: int = 0
    swapped_bytes: float = 0.0
    joined_tokens: int = 0
    replicas: int = 1
    routing: str | None = None
    imbalance: float | None = None
    promised_tokens: int | None = None
    messages_lost: int | None = None
    prefill_replicas: int = 0
    handed_bytes: float = 0.0
    peer_tokens: int = 0
    peer_bytes: float = 0.0
    wrong_drafts: int = 0

    @property
    def busy_seconds(self) -> float:
        """Seconds in which a card ran a step, of all replicas together."""
        return self.utilisation * self.makespan * (self.replicas + self.prefill_replicas)

    @property
    def tier_names(self) -> list[str]:
        """The tiers below the pool, nearest first."""
        return list(self.tier_read_bytes)


@dataclass(frozen=True)
class Simulated:
    """A simulation's numbers, the times of its finished requests, and the columns of all."""

    cell: ServerCell
    times: Times
    columns: dict[str, Any]


def simulate(plan: ServerPlan, server: Server) -> Simulated:
    """Run one simulation.

    Raises:
        KVFrameError: The policy misbehaved, or the core refused the server.
    """
    trace = plan.source.trace
    raw = _core.serve(
        trace,
        [_engine(plan, server) for _ in range(plan.fleet.servers)],
        plan.capacity,
        server.profile.steps,
        router=_router(plan, server),
        core=server.configured.core(trace.block_size) if server.configured else None,
        **_settings(plan, server),
    )
    columns = trace.columns()
    found = times(raw, columns["output_tokens"])
    return Simulated(_cell(plan, server, raw, found), found, raw)


def _settings(plan: ServerPlan, server: Server) -> dict[str, Any]:
    return {
        "max_num_seqs": server.max_num_seqs,
        "max_num_batched_tokens": server.max_num_batched_tokens,
        "long_prefill_token_threshold": server.long_prefill_token_threshold or 2**32 - 1,
        "chunked_prefill": server.chunked_prefill,
        "order": server.order,
        "priorities": [server.class_priority.get(name, 0) for name in plan.source.trace.classes],
        "shares": [server.class_share.get(name, 1.0) for name in plan.source.trace.classes]
        if server.class_share
        else [],
        "load": plan.load,
        "closed_loop": server.closed_loop,
        "cache_generated": server.cache_generated,
        "preemption": server.preemption
        if plan.tiers or server.preemption == NEVER
        else PREEMPTIONS[0],
        "preemption_order": server.preemption_order,
        "load_layers": server.load_layers if plan.tiers else 0,
        "returns": server.returns if plan.tiers else None,
        "join": server.join,
        "tell_next_use": server.tell_next_use,
        "speculation": server.speculation,
        "time_factor": plan.time_factor,
    }


def policies_of(
    chosen: Choice, block_size: int, configured: Configured | None
) -> tuple[object, dict[str, object] | None]:
    """The eviction policy made anew: of one from outside the core, an instance for each tenant."""
    policy, options = chosen.engine_policy(block_size)
    if isinstance(policy, str) or configured is None or not configured.tenants:
        return policy, options
    more = (chosen.engine_policy(block_size)[0] for _ in range(configured.tenants))
    return [policy, *more], options


def _router(plan: ServerPlan, server: Server) -> dict[str, Any] | None:
    fleet = plan.fleet
    if fleet.servers == 1:
        return None
    feed, over = server.feed, server.handover
    return {
        "routing": fleet.routing.name,
        "queue": fleet.routing.queue,
        "max_load_ratio": fleet.routing.max_load_ratio,
        "load": fleet.routing.load,
        "decode": server.decode_routing if over else None,
        "delay": feed.delay,
        "loss": feed.loss,
        "seed": 0,
        "counts_copies": feed.counts_copies,
        "shared": (plan.tiers.by_node, plan.tiers.by_all) if plan.tiers else (None, None),
        "prefill": (over.prefill, over.rate, over.latency, server.token_bytes) if over else None,
        "peers": (*server.peer_link, server.token_bytes * plan.source.trace.block_size)
        if server.peer_link
        else None,
    }


def _engine(plan: ServerPlan, server: Server) -> dict[str, Any]:
    """The policies and tiers of one server, made anew."""
    size = plan.source.trace.block_size
    policy, options = policies_of(plan.policy, size, server.configured)
    gate, gate_options = plan.admission.engine_policy(size) if plan.admission else (None, None)
    return {
        "policy": policy,
        "options": options,
        "admission": gate,
        "admission_options": gate_options,
        "matcher": plan.matcher.engine_policy(size) if plan.matcher else None,
        "tiers": plan.tiers.tables(server.token_bytes * size, size) if plan.tiers else None,
        "links": list(plan.tiers.links().values()) if plan.tiers else [],
        "moves": server.moves._asdict(),
    }


def _cell(plan: ServerPlan, server: Server, raw: dict[str, Any], found: Times) -> ServerCell:
    trace, columns = plan.source.trace, plan.source.trace.columns()
    done = raw["fate"] == FINISHED
    count, finished = len(done), int(done.sum())
    rejected = int((raw["fate"] == REJECTED).sum())
    inputs, outputs = (columns[name][done] for name in ("input_tokens", "output_tokens"))
    first = float(np.min(raw["arrival"])) if count else 0.0
    end = float(np.max(raw["end"][done])) if finished else first
    span, makespan = raw["last_arrival"] - first, end - first
    drain = max(end - raw["last_arrival"], 0.0)
    cached = int(raw["cached_tokens"].sum(dtype=np.int64))
    names = [tier.name for tier in plan.tiers.tiers] if plan.tiers else []
    by_tier = dict(zip(names, raw.get("tiers", ()), strict=True))
    loaded = {name: int(tier["loaded"].sum(dtype=np.int64)) for name, tier in by_tier.items()}
    peer_tokens = int(raw.get("peer_tokens", np.zeros(1)).sum(dtype=np.int64))
    found_first = cached + sum(loaded.values()) + peer_tokens
    tables = (
        plan.tiers.sizes(server.token_bytes * trace.block_size, trace.block_size)
        if plan.tiers
        else []
    )
    swapped = raw.get("swapped_out_pages", 0) + raw.get("swapped_in_pages", 0)

    def a_second(amount: float) -> float:
        return amount / makespan if makespan else 0.0

    ttft, e2e = quantiles(found.ttft), quantiles(found.e2e)
    itl = quantiles(raw["gaps"], raw["gap_counts"])
    stepped, servers = not server.profile.is_fixed, plan.fleet.servers
    several = servers > 1
    return ServerCell(
        trace=plan.source.name,
        policy=plan.label,
        capacity_blocks=plan.capacity,
        block_size=trace.block_size,
        load=plan.load,
        profile=server.profile.label,
        time_factor=plan.time_factor,
        requests=count,
        finished=finished,
        rejected=rejected,
        unfinished=count - finished - rejected,
        saturated=bool(raw["waiting_at_last_arrival"] > 0 and drain > DRAIN * span),
        token_hit_rate=found_first / max(int(inputs.sum(dtype=np.int64)), 1),
        **{f"ttft_{name}": value for name, value in ttft._asdict().items()},
        **{f"itl_{name}": value for name, value in itl._asdict().items()},
        **{f"e2e_{name}": value for name, value in e2e._asdict().items()},
        makespan=makespan,
        drain=drain,
        requests_per_second=a_second(finished),
        output_tokens_per_second=a_second(int(np.maximum(outputs, 1).sum(dtype=np.int64))),
        goodput=None if server.sla is None else a_second(kept(found, server.sla)),
        utilisation=a_second(raw["busy_seconds"]) / servers,
        kv_utilisation=(
            a_second(raw["block_seconds"]) / (plan.capacity * servers) if stepped else None
        ),
        mean_running=a_second(float((raw["end"] - raw["start"])[done].sum())),
        mean_waiting=a_second(float((raw["start"] - raw["arrival"])[done].sum())),
        peak_waiting=raw["peak_waiting"] if stepped else None,
        preemptions=int(raw["preemptions"].sum(dtype=np.int64)),
        prefill_tokens=raw["prefill_tokens"],
        decode_tokens=raw["decode_tokens"],
        reused_tokens=found_first + raw["found_on_return"],
        recomputed_tokens=int(raw["recomputed_tokens"].sum(dtype=np.int64)),
        evictions=raw["evictions"],
        steps=raw["steps"],
        seconds=raw["seconds"],
        tiers="" if plan.tiers is None else plan.tiers.told,
        tier_hit_tokens={"pool": cached, **loaded} if names else {},
        tier_read_bytes={name: tier["read_bytes"] for name, tier in by_tier.items()},
        tier_written_bytes={name: tier["written_bytes"] for name, tier in by_tier.items()},
        tier_break_even={name: tier["break_even"] for name, tier in by_tier.items()},
        tier_dropped_pages=raw.get("dropped_pages", 0),
        stalled_seconds=raw.get("stalled_seconds", 0.0),
        tier_others_tokens={
            name: tier["others_pages"] * trace.block_size for name, tier in by_tier.items()
        }
        if plan.tiers and plan.tiers.is_shared and several
        else {},
        ahead_tokens=raw.get("ahead_pages", 0) * trace.block_size,
        ahead_used_tokens=raw.get("ahead_used_pages", 0) * trace.block_size,
        tier_bytes={
            table.name: table.bytes * (plan.tiers.copies(place, servers) if plan.tiers else servers)
            for place, table in enumerate(tables)
        },
        swaps=raw.get("swaps", 0),
        swapped_bytes=swapped * (tables[0].page_bytes if tables else 0.0),
        joined_tokens=int(raw.get("joined_tokens", np.zeros(1)).sum(dtype=np.int64)),
        replicas=plan.fleet.replicas,
        routing=plan.fleet.label if several else None,
        imbalance=imbalance(raw["engines"][: plan.fleet.prefill or None]) if several else None,
        promised_tokens=int(raw["promised_tokens"].sum(dtype=np.int64)) if several else None,
        messages_lost=raw["messages_lost"] if several else None,
        prefill_replicas=plan.fleet.prefill,
        handed_bytes=float(raw.get("handed_tokens", 0) * server.token_bytes),
        peer_tokens=peer_tokens,
        peer_bytes=raw.get("peer_bytes", 0.0),
        wrong_drafts=raw.get("wrong_drafts", 0),
    )
