"""A run of simulated servers, from the texts of the command line to its outputs."""

from __future__ import annotations

from collections.abc import Sequence

from kvframe.bench import capacity, policies
from kvframe.bench.admissions import KEEP_ALL, Admission
from kvframe.bench.configured import Configured, configured
from kvframe.bench.locate import choose_all
from kvframe.bench.matchers import OWN, Matcher
from kvframe.bench.options import LARGEST, one_of, positive, split_list
from kvframe.bench.policies import Choice
from kvframe.bench.server import remarks, report, routing
from kvframe.bench.server.asked import check_classes, check_never, fleets_of, server_of
from kvframe.bench.server.below import (
    FILLS,
    HIT_REFRESHES,
    STORAGE_PREFETCHES,
    check_below,
    check_live,
    linked,
    shared,
)
from kvframe.bench.server.cards import CARD, CARDS, Card, parse_card
from kvframe.bench.server.cells import NEVER, PREEMPTIONS, Server, ServerPlan, Simulated, simulate
from kvframe.bench.server.fleet import Fleet, PartCell, by_class, by_replica, flooded
from kvframe.bench.server.parallel import parse_parallel
from kvframe.bench.server.request import CAPACITIES, FORMATS, POLICIES, PREFETCH, ServerRequest
from kvframe.bench.server.requests import check_file, write_requests
from kvframe.bench.server.shape import DEFAULT, Served, parse_served, parse_server_shape
from kvframe.bench.server.tiers import ServedTiers, configured_tiers, parse_tiers
from kvframe.bench.server.verdict import FACTORS
from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.config.sizes import rounded
from kvframe.errors import ConfigError
from kvframe.registry import Registry


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
        choices, broken = _choices(request, found, registry)
        besides = _besides(request, found, registry)
        below = _below(request, found, registry)
        loads = [_load(text) for text in split_list(request.loads, "--load")]
        card = None if request.card is None else parse_card(request.card)
        shape = self._shape = _shape(request, found)
        self._over = parse_parallel(request.parallel, shape)
        self.server = server_of(request, card or CARDS[CARD], (shape, self._over), found)
        _check_tiers(request, self.server, below)
        check_never(self.server, found)
        below = linked(below, request.links)
        check_live(below, self.server.moves, request.tell_next_use)
        if request.requests is not None:
            check_file(request.requests)
        if sources is None:
            sources = _read(request)
        self.fleets = fleets_of(request, self.server)
        if below is not None:
            below = shared(below, split_list(request.shared_tiers, "--shared-tier"), self.fleets)
        if request.flood is not None:
            sources = [one for s in sources for one in (s, flooded(s, request.flood))]
        check_classes("--class-priority", self.server.class_priority, sources)
        check_classes("--class-share", self.server.class_share, sources)
        sizes = {source.name: self._blocks(source, card, shape, found) for source in sources}
        self.doubts = [f"{s.name}: {s.doubt}" for s in sources if s.doubt]
        self.doubts += [f"{s.name}: {remark}" for s in sources for remark in s.remarks]
        self._remarks = [f"Left out of all: {why}." for why in broken]
        self._remarks += remarks.of_server(self.server, card, shape, sources)
        self._remarks += remarks.of_fleets(self.fleets, sources)
        self._remarks += self._of_cards(card, found)
        if found is not None:
            self._remarks += found.remarks([source.trace.block_size for source in sources])
            for source in sources:
                trace = source.trace
                self._remarks += found.unclaimed(source.name, trace.block_size, trace.classes)
        if below is not None:
            self._remarks += below.remarks
        rows = [(choice, *one) for choice in choices for one in besides]
        self.plans = _cross(sources, rows, loads, sizes, (below, self.fleets))

    def _of_cards(self, card: Card | None, found: Configured | None) -> list[str]:
        """What of a replica's cards the capacity is, and what of each is kept for other things."""
        said = []
        if self._over.cards > 1:
            said.append(f"A replica has {self._over.cards} cards: --capacity is of all.")
        held = self._over.held(self._shape, self._held(found))
        if card is not None and held:
            said.append(
                f"Of each card, {rounded(int(held))} are for the windows and states of "
                f"--max-num-seqs {self.request.max_num_seqs} sequences."
            )
        return said

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


def _choices(
    request: ServerRequest, found: Configured | None, registry: Registry
) -> tuple[list[Choice], list[str]]:
    """Eviction policies, and why some of ``all`` are left out."""
    named = request.policies or (() if found else POLICIES)
    names, broken = policies.expand(split_list(named, "--policy"), registry)
    choices = choose_all("eviction", names, registry)
    return ([found.eviction] if found is not None and not names else list(choices)), broken


def _below(
    request: ServerRequest, found: Configured | None, registry: Registry
) -> ServedTiers | None:
    below = parse_tiers(request.tiers, registry)
    if below is None and found is not None:
        return configured_tiers(found.resolved)
    return below


def _check_tiers(request: ServerRequest, server: Server, below: ServedTiers | None) -> None:
    """What is asked of tiers needs some, and steps beside which pages move.

    Raises:
        ConfigError: Names the option.
    """
    if below is not None and server.profile.is_fixed:
        raise ConfigError(
            f"--tier: the server of --profile {server.profile.label} has no steps beside "
            "which pages could move: use roofline or a table"
        )
    if below is None and server.preemption not in (PREEMPTIONS[0], NEVER):
        raise ConfigError(
            f"--preemption {server.preemption}: pages go to host memory, and there is "
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


def _read(request: ServerRequest) -> list[Source]:
    how = ReadOptions(
        request.block_size,
        request.time_unit,
        request.trace_format,
        request.sort,
        request.tokenizer,
    )
    return [read(name, how) for name in split_list(request.traces, "--trace")]


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


def _load(text: str) -> float:
    load = positive(text)
    if load is None:
        raise ConfigError(
            f"--load {text}: must be a number above 0, at most {LARGEST:g}; 0.5 halves the "
            "requests a second"
        )
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
