"""A run of simulated servers, from the texts of the command line to its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import msgspec

from kvframe.bench import capacity, policies
from kvframe.bench.admissions import KEEP_ALL, Admission
from kvframe.bench.configured import Configured, configured
from kvframe.bench.locate import choose_all
from kvframe.bench.matchers import OWN, Matcher
from kvframe.bench.options import keyed, one_of, split_list
from kvframe.bench.policies import Choice
from kvframe.bench.server import remarks, report, routing
from kvframe.bench.server.below import (
    FILLS,
    HIT_REFRESHES,
    STORAGE_PREFETCHES,
    Returns,
    check_below,
    check_live,
    linked,
    parse_moves,
    parse_returns,
    shared,
)
from kvframe.bench.server.cards import CARD, CARDS, Card, parse_card
from kvframe.bench.server.cells import (
    LAST_ADMITTED,
    NEVER,
    PREEMPTIONS,
    Server,
    ServerPlan,
    Simulated,
    simulate,
)
from kvframe.bench.server.fleet import (
    ALONE,
    FEWEST,
    Fleet,
    PartCell,
    Routing,
    by_class,
    by_replica,
    check_fleets,
    check_heard,
    fleets,
    flooded,
    parse_feed,
    parse_handover,
    parse_peer_link,
    parse_routing,
)
from kvframe.bench.server.parallel import Parallel, parse_parallel
from kvframe.bench.server.profiles import parse_profile
from kvframe.bench.server.requests import check_file, write_requests
from kvframe.bench.server.shape import DEFAULT, Served, parse_served, parse_server_shape
from kvframe.bench.server.sla import parse_sla
from kvframe.bench.server.speculation import parse_speculation
from kvframe.bench.server.tiers import ServedTiers, configured_tiers, parse_tiers
from kvframe.bench.server.verdict import FACTORS
from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.config.sizes import rounded
from kvframe.errors import ConfigError
from kvframe.pressure import PreemptionRule
from kvframe.registry import Registry
from kvframe.spelling import did_you_mean

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
    prefetch: int = PREFETCH
    promote_fill: str = FILLS[0]
    storage_prefetch: str = STORAGE_PREFETCHES[0]
    live_writes: bool = False
    evict_backed_first: bool = False
    hit_refresh: str = HIT_REFRESHES[0]
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    long_prefill_token_threshold: int = 0
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
    event_loss: float = 0.0
    tell_copies: bool = False
    disaggregate: str | None = None
    decode_routing: str | None = None
    peer_link: str | None = None
    speculate: str | None = None
    flood: str | None = None
    sla: str | None = None
    requests: Path | None = None
    formats: Sequence[str] = ("table",)
    block_size: int | None = None
    time_unit: str | None = None
    trace_format: str | None = None
    sort: bool = False
    tokenizer: str | None = None
    quiet: bool = False


class ServerJob:
    """A request that was checked whole: nothing runs before every name and number is known good.

    ``doubts`` says, in lines that begin with a trace, what its figures depend on.
    """

    def __init__(self, request: ServerRequest, sources: Sequence[Source] | None = None) -> None:
        """Resolve policies, the server and its capacities, then read the traces.

        ``sources`` stand in for the traces that the request names.

        Raises:
            ConfigError: An option's value; names the option.
            PluginError: An unknown or broken policy.
            TraceError: A trace that cannot be read; names file and line.
        """
        self.request = request
        self._formats = one_of(request.formats, "--format", FORMATS)
        registry = Registry()
        found = configured(request.config, registry)
        named = request.policies or (() if found else POLICIES)
        names, broken = policies.expand(split_list(named, "--policy"), registry)
        choices = choose_all("eviction", names, registry)
        if found is not None and not names:
            choices = [found.eviction]
        besides = _besides(request, found, registry)
        below = parse_tiers(request.tiers, registry)
        if below is None and found is not None:
            below = configured_tiers(found.resolved)
        loads = [_load(text) for text in split_list(request.loads, "--load")]
        card = None if request.card is None else parse_card(request.card)
        shape = self._shape = _shape(request, found)
        self._over = parse_parallel(request.parallel, shape)
        self.server = _server(request, card or CARDS[CARD], (shape, self._over), found)
        if below is not None and self.server.profile.is_fixed:
            raise ConfigError(
                f"--tier: the server of --profile {self.server.profile.label} has no steps beside "
                "which pages could move: use roofline or a table"
            )
        _check_never(self.server, found)
        if below is None and self.server.preemption not in (PREEMPTIONS[0], NEVER):
            raise ConfigError(
                f"--preemption {self.server.preemption}: pages go to host memory, and there is "
                "none: add --tier host=SIZE"
            )
        check_below(below, {
            "--prefetch": request.prefetch != PREFETCH,
            "--layerwise": request.layerwise,
            "--prefetch-sessions": request.prefetch_sessions is not None,
            "--shared-tier": bool(request.shared_tiers),
            "--link": bool(request.links),
            "--promote-fill": request.promote_fill != FILLS[0],
            "--storage-prefetch": request.storage_prefetch != STORAGE_PREFETCHES[0],
            "--live-writes": request.live_writes,
            "--evict-backed-first": request.evict_backed_first,
            "--hit-refresh": request.hit_refresh != HIT_REFRESHES[0],
        })  # fmt: skip
        below = linked(below, request.links)
        check_live(below, self.server.moves, request.tell_next_use)
        if request.requests is not None:
            check_file(request.requests)
        how = ReadOptions(
            request.block_size,
            request.time_unit,
            request.trace_format,
            request.sort,
            request.tokenizer,
        )
        if sources is None:
            sources = [read(name, how) for name in split_list(request.traces, "--trace")]
        self.fleets = _fleets(request, self.server)
        if below is not None:
            below = shared(below, split_list(request.shared_tiers, "--shared-tier"), self.fleets)
        if request.flood is not None:
            sources = [one for s in sources for one in (s, flooded(s, request.flood))]
        _check_classes("--class-priority", self.server.class_priority, sources)
        _check_classes("--class-share", self.server.class_share, sources)
        sizes = {source.name: self._blocks(source, card, shape, found) for source in sources}
        self.doubts = [f"{s.name}: {s.doubt}" for s in sources if s.doubt]
        self.doubts += [f"{s.name}: {remark}" for s in sources for remark in s.remarks]
        self._remarks = [f"Left out of all: {why}." for why in broken]
        self._remarks += remarks.of_server(self.server, card, shape, sources)
        self._remarks += remarks.of_fleets(self.fleets, sources)
        if self._over.cards > 1:
            self._remarks.append(f"A replica has {self._over.cards} cards: --capacity is of all.")
        held = self._over.held(shape, self._held(found))
        if card is not None and held:
            self._remarks.append(
                f"Of each card, {rounded(int(held))} are for the windows and states of "
                f"--max-num-seqs {request.max_num_seqs} sequences."
            )
        if found is not None:
            self._remarks += found.remarks([source.trace.block_size for source in sources])
            for source in sources:
                trace = source.trace
                self._remarks += found.unclaimed(source.name, trace.block_size, trace.classes)
        if below is not None:
            self._remarks += below.remarks
        rows = [(choice, *one) for choice in choices for one in besides]
        self.plans = _cross(sources, rows, loads, sizes, (below, self.fleets))

    def run(self) -> dict[ServerPlan, Simulated]:
        """Run every simulation; with ``--requests``, write what came of each request.

        Raises:
            KVFrameError: A simulation failed.
            OSError: The file cannot be written.
        """
        done = {plan: simulate(plan, self.server) for plan in self.plans}
        if self.request.requests is not None:
            asked = [(plan, one) for plan, one in done.items() if plan.time_factor == 1.0]
            write_requests(self.request.requests, asked)
        return done

    def outputs(self, done: dict[ServerPlan, Simulated]) -> list[str]:
        """What was simulated, in each form that was asked for."""
        return [self._output(form, done) for form in self._formats]

    def result(self, done: dict[ServerPlan, Simulated]) -> report.ServerResult:
        """What was simulated, and what it says."""
        cells = {plan: one.cell for plan, one in done.items()}
        return report.ServerResult(
            cells=list(cells.values()),
            by_replica=self._by_replica(done),
            by_class=self._by_class(done),
            model_shape=self._shape.text,
            token_bytes=self._shape.token_bytes,
            verdicts=[*report.verdicts(cells), *self._floods(done)],
            tier_verdicts=report.tier_verdicts(cells),
            remarks=[*self.doubts, *self._remarks],
        )

    def _output(self, form: str, done: dict[ServerPlan, Simulated]) -> str:
        cells = {plan: one.cell for plan, one in done.items()}
        match form:
            case "json":
                return report.json(self.result(done))
            case "csv":
                return report.comma_separated(list(cells.values()))
            case _:
                classes = [part for part in self._by_class(done) if part.time_factor == 1.0]
                parts = self._by_replica(done), classes
                return report.text(cells, parts, self._remarks, self._floods(done))

    def _by_replica(self, done: dict[ServerPlan, Simulated]) -> list[PartCell]:
        tried = ((plan, one) for plan, one in done.items() if plan.time_factor == 1.0)
        return [part for plan, one in tried for part in by_replica(plan, one)]

    def _by_class(self, done: dict[ServerPlan, Simulated]) -> list[PartCell]:
        if self.request.flood is None:
            return []
        return [part for plan, one in done.items() for part in by_class(plan, one)]

    def _floods(self, done: dict[ServerPlan, Simulated]) -> list[str]:
        if self.request.flood is None:
            return []
        name, _, times = self.request.flood.rpartition("=")
        return routing.floods(self._by_class(done), name, int(times))

    def _held(self, found: Configured | None) -> int:
        """Sequences whose windows and states a card keeps room for; 0 where groups count them."""
        groups = found.resolved.config.groups if found else []
        counted = any(group.kind != "full" for group in groups)
        return 0 if counted else self.request.max_num_seqs

    def _blocks(
        self, source: Source, card: Card | None, shape: Served, found: Configured | None
    ) -> list[int]:
        """Capacities for a trace, each once; a card holds them all."""
        size = source.trace.block_size
        most = None if card is None else self._over.blocks_on(card, shape, size, self._held(found))
        if not self.request.capacities and found is not None:
            return [found.blocks(size)]
        if not self.request.capacities and most is not None:
            return [most]
        asked = capacity.parse_each(self.request.capacities or CAPACITIES, shape.kv)
        for one in asked:
            if most is not None and one.blocks(size) > most:
                block = shape.token_bytes * size
                raise ConfigError(
                    f"--capacity {one.text}: {one.blocks(size):,} blocks of {size} tokens take "
                    f"{rounded(one.blocks(size) * block)}; beside the weights --card "
                    f"{self.request.card} holds {most:,}, {rounded(most * block)}"
                )
        return list(dict.fromkeys(one.blocks(size) for one in asked))


def _shape(request: ServerRequest, found: Configured | None) -> Served:
    """The served model; a configuration says what of it KV is kept, and not how large it is."""
    if request.model_shape is not None:
        return parse_served(request.model_shape)
    shape = parse_server_shape(DEFAULT)
    model = None if found is None else found.resolved.config.model
    return shape if model is None else shape._replace(kv=model)


def _besides(
    request: ServerRequest, found: Configured | None, registry: Registry
) -> list[tuple[Admission | None, Matcher | None]]:
    """Admission policies x prefix matchers; None stands for the core's own."""
    gates: list[Admission | None] = [None]
    indexes: list[Matcher | None] = [None]
    if request.admissions:
        gates = list(
            choose_all("admission", split_list(request.admissions, "--admission"), registry)
        )
    elif found is not None:
        gates = [found.admission]
    if request.matchers:
        indexes = list(choose_all("prefix", split_list(request.matchers, "--prefix"), registry))
    elif found is not None:
        indexes = [found.matcher]
    kept = [None if gate is None or gate.label == KEEP_ALL else gate for gate in gates]
    taken = [None if one is None or one.label == OWN else one for one in indexes]
    return [(gate, one) for gate in kept for one in taken]


def _server(
    request: ServerRequest,
    card: Card,
    model: tuple[Served, Parallel],
    found: Configured | None,
) -> Server:
    shape, over = model
    profile = parse_profile(request.profile, card, shape, over, cascade=request.cascade_attention)
    order = one_of([request.order], "--order", ORDERS)[0]
    without_steps = [
        option
        for option, is_asked in (
            ("--closed-loop", request.closed_loop),
            (f"--order {order}", order != "fcfs"),
            (
                f"--preemption-order {request.preemption_order}",
                request.preemption_order != LAST_ADMITTED,
            ),
            ("--join", request.join),
            ("--no-chunked-prefill", not request.chunked_prefill),
            (f"--preemption {NEVER}", request.preemption == NEVER),
            ("--class-share", request.class_share is not None),
        )
        if is_asked
    ]
    if profile.is_fixed and without_steps:
        raise ConfigError(
            f"{without_steps[0]}: the server of --profile {profile.label} computes one prompt "
            "after the other, by the clock: use roofline or a table"
        )
    speculation = None if request.speculate is None else parse_speculation(request.speculate)
    if speculation is not None and not profile.knows_drafts:
        raise ConfigError(
            f"--speculate: --profile {profile.label} says nothing of steps that verify drafts: use "
            "roofline or measured terms"
        )
    if request.long_prefill_token_threshold and not request.chunked_prefill:
        raise ConfigError(
            f"--long-prefill-token-threshold {request.long_prefill_token_threshold} and "
            "--no-chunked-prefill: a prompt that is not cut has no longest chunk: leave one out"
        )
    if (request.class_priority is not None) != (order == "priority"):
        raise ConfigError("--class-priority and --order priority: one needs the other")
    return Server(
        profile=profile,
        sla=None if request.sla is None else parse_sla(request.sla),
        max_num_seqs=request.max_num_seqs,
        max_num_batched_tokens=request.max_num_batched_tokens,
        long_prefill_token_threshold=request.long_prefill_token_threshold,
        chunked_prefill=request.chunked_prefill,
        order=order,
        class_priority=_class_priority(request.class_priority),
        class_share=_class_share(request.class_share),
        closed_loop=request.closed_loop,
        cache_generated=request.cache_generated,
        preemption=one_of([request.preemption], "--preemption", PREEMPTIONS)[0],
        preemption_order=one_of(
            [request.preemption_order], "--preemption-order", PREEMPTION_ORDERS
        )[0],
        load_layers=shape.layers if request.layerwise else 0,
        returns=_returns(request),
        join=request.join,
        tell_next_use=request.tell_next_use,
        token_bytes=shape.token_bytes,
        moves=parse_moves(
            request.prefetch, request.promote_fill, request.storage_prefetch, request.hit_refresh
        )._replace(live=request.live_writes, evict_backed_first=request.evict_backed_first),
        configured=found,
        speculation=None if speculation is None else speculation.table(card, over.cards),
        handover=parse_handover(request.disaggregate),
        decode_routing=_decode_routing(request),
        peer_link=parse_peer_link(request.peer_link),
        feed=parse_feed(request.event_delay, request.event_loss, request.tell_copies),
    )


def _check_never(server: Server, found: Configured | None) -> None:
    """Without preemption, what requests need up to their ends is known.

    Raises:
        ConfigError: Layer groups or tenants, whose blocks are not counted ahead.
    """
    if server.preemption != NEVER or found is None:
        return
    config = found.resolved.config
    counted = len(config.groups) == 1 and config.groups[0].kind == "full"
    if not counted or config.tenants:
        what = "[[tenants]]" if counted else "[[groups]]"
        raise ConfigError(
            f"--preemption never: the blocks of {what} of --config are not counted ahead: take "
            "another"
        )


def _returns(request: ServerRequest) -> Returns | None:
    if request.prefetch_sessions is not None and request.disaggregate is not None:
        raise ConfigError(
            "--prefetch-sessions and --disaggregate: servers that compute prompts do not know when "
            "a turn ends: leave one out"
        )
    return parse_returns(request.prefetch_sessions)


def _decode_routing(request: ServerRequest) -> Routing:
    if request.decode_routing is None:
        return FEWEST
    if request.disaggregate is None:
        raise ConfigError(
            f"--decode-routing {request.decode_routing}: there are no servers that only decode: "
            "add --disaggregate prefill=N"
        )
    return parse_routing(request.decode_routing, "--decode-routing")


def _fleets(request: ServerRequest, server: Server) -> list[Fleet]:
    replicas = split_list(request.replicas, "--replicas")
    prefill = server.handover.prefill if server.handover else 0
    made = fleets(replicas, split_list(request.routings, "--routing"), prefill)
    if server.profile.is_fixed and made != [ALONE]:
        raise ConfigError(
            f"--replicas {','.join(replicas)}: the server of --profile {server.profile.label} has "
            "no steps: use roofline or a table"
        )
    check_fleets(made, {
        f"--peer-link {request.peer_link}": server.peer_link is not None,
        f"--routing {','.join(request.routings)}": request.routings != ServerRequest.routings,
        "--tell-copies": request.tell_copies,
    })  # fmt: skip
    if not request.tell_copies and not server.decode_routing.hears:
        delay, loss = request.event_delay, request.event_loss
        check_heard(made, {
            f"--event-delay {delay}": delay != ServerRequest.event_delay,
            f"--event-loss {loss}": loss != ServerRequest.event_loss,
        })  # fmt: skip
    return made


def _class_priority(text: str | None) -> dict[str, int]:
    found = {}
    for name, value in keyed((text or "").split(","), "--class-priority").items() if text else ():
        try:
            found[name] = int(value)
        except ValueError:
            raise ConfigError(
                f"--class-priority {text}: {name} = {value}: must be a whole number"
            ) from None
    return found


def _class_share(text: str | None) -> dict[str, float]:
    found = {}
    for name, value in keyed((text or "").split(","), "--class-share").items() if text else ():
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] <= 1:
            raise ConfigError(
                f"--class-share {text}: {name} = {value}: must be a share above 0, up to 1"
            )
    return found


def _check_classes(option: str, wanted: Mapping[str, object], sources: Sequence[Source]) -> None:
    known = [name for source in sources for name in source.trace.classes]
    for name in wanted:
        if name not in known:
            have = f"the traces have {', '.join(known)}" if known else "no trace names classes"
            raise ConfigError(f"{option}: no class {name}: {have}{did_you_mean(name, known)}")


def _load(text: str) -> float:
    try:
        load: float = msgspec.convert(text, Annotated[float, msgspec.Meta(gt=0)], strict=False)
    except msgspec.ValidationError:
        raise ConfigError(
            f"--load {text}: must be a number above 0; 0.5 halves the requests a second"
        ) from None
    return load


def _cross(
    sources: Sequence[Source],
    rows: Sequence[tuple[Choice, Admission | None, Matcher | None]],
    loads: Sequence[float],
    sizes: dict[str, list[int]],
    around: tuple[ServedTiers | None, Sequence[Fleet]],
) -> list[ServerPlan]:
    """Traces x capacities x loads x fleets x policies x without and with tiers; those that an
    engine can run at other time factors too.
    """
    tiers, fleets = around
    return [
        ServerPlan(source, choice, size, load, factor, gate, matcher, below, fleet)
        for source in sources
        for size in sizes[source.name]
        for load in dict.fromkeys(loads)
        for fleet in fleets
        for factor in (1.0, *FACTORS)
        for choice, gate, matcher in rows
        for below in ((None, tiers) if tiers and not choice.replay_only else (None,))
        if factor == 1.0 or not choice.replay_only
    ]
