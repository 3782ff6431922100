"""Several servers behind a router: which they are, what each did, and one class against another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from kvframe.bench.options import keyed
from kvframe.bench.server.durations import parse_time
from kvframe.bench.server.links import parse_latency, parse_rate
from kvframe.bench.server.summary import FINISHED, Column, quantiles
from kvframe.bench.traces import Source
from kvframe.config.sizes import whole
from kvframe.errors import ConfigError, UsageError
from kvframe.spelling import did_you_mean

if TYPE_CHECKING:
    from kvframe.bench.server.cells import ServerPlan, Simulated

ROUTINGS = ("round-robin", "least-loaded", "prefix", "session", "kv-aware")
OPTIONS = {"prefix": ("queue", "max_load_ratio"), "kv-aware": ("load",)}
"""What a routing may say besides."""
MOST = 64
"""Replicas that a simulation can have."""
MOST_TIMES = 1_000_000
"""How often the requests of a flood can come."""
HANDOVER_LINK, HANDOVER_LATENCY = "50GB/s", "20us"
"""An estimate: a network card of 400 Gbit/s for each server."""
PEER_LATENCY = "5us"
"""An estimate, of cards beside each other."""


class Routing(NamedTuple):
    """Which of several servers gets a request.

    Attributes:
        name: One of `ROUTINGS`.
        queue: With ``prefix``, what a token that is waited for weighs beside one that is computed.
        max_load_ratio: With it, one with more requests than so many times the mean gets none.
        load: With ``kv-aware``, tokens that a running sequence weighs.
    """

    name: str = ROUTINGS[0]
    queue: float = 1.0
    max_load_ratio: float | None = None
    load: float = 64.0

    @property
    def hears(self) -> bool:
        """Whether it goes by what replicas announce."""
        return self.name in OPTIONS

    @property
    def label(self) -> str:
        """As the tables show it."""
        options = OPTIONS.get(self.name, ())
        usual = type(self)()._asdict()
        said = [
            f"{key}={value:g}"
            for key, value in self._asdict().items()
            if key in options and value != usual[key]
        ]
        return ":".join([self.name, ",".join(said)]) if said else self.name


IN_TURN, FEWEST = Routing(), Routing("least-loaded")


@dataclass(frozen=True)
class Fleet:
    """Servers behind a router.

    Attributes:
        replicas: How many.
        routing: Which of them gets a request.
        prefill: Further servers, which compute prompts alone: the router chooses among them.
    """

    replicas: int = 1
    routing: Routing = IN_TURN
    prefill: int = 0

    @property
    def servers(self) -> int:
        """All of them."""
        return self.prefill + self.replicas

    @property
    def crew(self) -> str:
        """How many servers, in words."""
        if self.prefill:
            return f"{self.prefill} for prompts and {self.replicas} for answers"
        return f"{self.replicas} replicas"

    @property
    def before_blocks(self) -> str:
        """What a sentence says of the servers before it says their blocks."""
        return f"{self.crew} by {self.label} of " if self.servers > 1 else ""

    @property
    def label(self) -> str:
        """The routing, as the tables show it."""
        return self.routing.label


class Handover(NamedTuple):
    """Servers that compute prompts alone, and the link over which each other one gets them.

    Attributes:
        prefill: How many.
        rate: Bytes a second.
        latency: Seconds that a transfer takes besides.
    """

    prefill: int
    rate: float
    latency: float


class PeerLink(NamedTuple):
    """The link over which each replica gives others what their pools and tiers lack.

    Attributes:
        rate: Bytes a second.
        latency: Seconds that a transfer takes besides.
    """

    rate: float
    latency: float


@dataclass(frozen=True)
class Feed:
    """How servers' events get to the router.

    Attributes:
        delay: Seconds from what happened to the router's knowing it.
        loss: The share of messages that never arrive.
        counts_copies: Servers are told how many others hold a block.
    """

    delay: float = 0.0
    loss: float = 0.0
    counts_copies: bool = False


ALONE = Fleet()
AT_ONCE = Feed()


def parse_routing(text: str, option: str = "--routing") -> Routing:
    """A routing, as ``prefix:queue=0,max_load_ratio=1.5``.

    Raises:
        ConfigError: An unknown routing or option, or an impossible value.
    """
    name, colon, given = text.partition(":")
    if name not in ROUTINGS:
        known = ", ".join(ROUTINGS)
        raise ConfigError(f"{option} {text}: must be {known}{did_you_mean(name, ROUTINGS)}")
    options = keyed(given.split(","), f"{option} {text}") if colon else {}
    allowed = OPTIONS.get(name, ())
    values = {}
    for key, value in options.items():
        if key not in allowed:
            have = "; ".join(f"{one} has {', '.join(keys)}" for one, keys in OPTIONS.items())
            near = did_you_mean(key, allowed)
            raise ConfigError(f"{option} {text}: no option {key}: {have}{near}")
        values[key] = _weight(str(value), key, f"{option} {text}")
    return Routing(name, **values)


def _weight(text: str, key: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    is_ratio = key == "max_load_ratio"
    if not 0 <= value < float("inf") or (is_ratio and not value):
        raise ConfigError(f"{where}: {key}: must be {'above 0' if is_ratio else '0 or more'}")
    return value


def parse_handover(text: str | None) -> Handover | None:
    """``prefill=2,link=50GB/s,latency=20us``.

    Raises:
        ConfigError: An unknown key, no number of servers, or an impossible value.
    """
    if text is None:
        return None
    where, known = f"--disaggregate {text}", ("prefill", "link", "latency")
    given = keyed(text.split(","), where)
    for key in given:
        if key not in known:
            near = did_you_mean(key, known)
            raise ConfigError(f"{where}: no key {key}: {', '.join(known)}{near}")
    told = str(given.get("prefill", ""))
    count = whole(told) or 0
    if not 1 <= count < MOST:
        raise ConfigError(f"{where}: prefill = {told}: must be a number from 1 to {MOST - 1}")
    rate = parse_rate(given.get("link", HANDOVER_LINK), f"{where}: link")
    latency = parse_latency(given.get("latency", HANDOVER_LATENCY), f"{where}: latency")
    return Handover(count, rate, latency)


def parse_peer_link(text: str | None) -> PeerLink | None:
    """``450GB/s`` or ``450GB/s,latency=5us``.

    Raises:
        ConfigError: An unknown key, or an impossible value.
    """
    if text is None:
        return None
    where = f"--peer-link {text}"
    rate, comma, rest = text.partition(",")
    given = keyed(rest.split(","), where) if comma else {}
    for key in given:
        if key != "latency":
            raise ConfigError(f"{where}: no key {key}: latency{did_you_mean(key, ('latency',))}")
    latency = parse_latency(given.get("latency", PEER_LATENCY), f"{where}: latency")
    return PeerLink(parse_rate(rate, "--peer-link"), latency)


def fleets(replicas: Sequence[str], routings: Sequence[str], prefill: int = 0) -> list[Fleet]:
    """Every number of replicas with every routing; one server alone needs no router.

    Raises:
        ConfigError: A number that is none, or a routing that is not known.
    """
    chosen = [parse_routing(text) for text in routings]
    made: dict[Fleet, None] = {}
    for text in replicas:
        count = whole(text) or 0
        if not 1 <= count <= MOST:
            raise ConfigError(f"--replicas {text}: must be a number from 1 to {MOST}")
        if count + prefill > MOST:
            raise ConfigError(
                f"--replicas {text}: with {prefill} that compute prompts, at most {MOST}"
            )
        if (prefill or count) == 1:  # nothing to choose from
            made[Fleet(count, prefill=prefill)] = None
            continue
        for routing in chosen:
            made[Fleet(count, routing, prefill)] = None
    return list(made)


def parse_feed(delay: str, loss: float, last_copy: bool) -> Feed:
    """``--event-delay``, ``--event-loss`` and ``--tell-copies``.

    Raises:
        ConfigError: A time without a unit, or a share beyond 1.
    """
    if not 0 <= loss <= 1:
        raise ConfigError(f"--event-loss {loss:g}: must be a share from 0 to 1")
    return Feed(parse_time(delay, f"--event-delay {delay}"), loss, last_copy)


def flooded(source: Source, text: str) -> Source:
    """A trace in which one class comes more often: ``chat=4``.

    Raises:
        ConfigError: A class that the trace does not have, or a number that is none.
    """
    name, _, told = text.rpartition("=")
    count = whole(told) or 0
    if not name or not 2 <= count <= MOST_TIMES:
        raise ConfigError(f"--flood {text}: must be CLASS=N with a whole N from 2 to {MOST_TIMES}")
    trace = source.trace
    if name not in trace.classes:
        have = f"it has {', '.join(trace.classes)}" if trace.classes else "it names no classes"
        near = did_you_mean(name, trace.classes)
        raise ConfigError(f"--flood {text}: {source.name} has no class {name}: {have}{near}")
    try:
        made = trace.flooded(name, count)
    except UsageError as error:
        raise ConfigError(f"--flood {text}: {error}") from None
    return Source(
        name=f"{source.name}, {name} x {count}",
        sha256=source.sha256,
        trace=made,
        time_unit=source.time_unit,
        doubt=source.doubt,
        form=source.form,
        remarks=source.remarks,
    )


class PartCell(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a simulation's requests: those that one replica served, or those of one class.

    Times are in seconds, over the part's finished requests. ``part`` is the replica's number or the
    class's name. What only a replica has is null for a class.
    """

    trace: str
    policy: str
    capacity_blocks: int
    load: float
    replicas: int
    routing: str | None
    part: str
    requests: int
    finished: int
    token_hit_rate: float
    ttft_mean: float | None
    ttft_p50: float | None
    ttft_p99: float | None
    e2e_mean: float | None
    utilisation: float | None = None
    computed_tokens: int | None = None
    evictions: int | None = None
    peak_waiting: int | None = None
    time_factor: float = 1.0


def by_replica(plan: ServerPlan, one: Simulated) -> list[PartCell]:
    """What each replica did; of those that compute prompts, the prompts that they computed."""
    engines, prefill = one.columns.get("engines", ()), plan.fleet.prefill
    return [
        _part(
            plan,
            one,
            str(at) if not prefill else f"prompts {at}" if at < prefill else f"{at - prefill}",
            one.columns["engine_of" if at < prefill or not prefill else "decoded_by"] == at,
            utilisation=engine["busy_seconds"] / one.cell.makespan if one.cell.makespan else 0.0,
            computed_tokens=engine["prefill_tokens"] + engine["decode_tokens"],
            evictions=engine["evictions"],
            peak_waiting=engine["peak_waiting"],
        )
        for at, engine in enumerate(engines)
    ]


def by_class(plan: ServerPlan, one: Simulated) -> list[PartCell]:
    """What the requests of each class felt; those that name none are left out."""
    trace = plan.source.trace
    number = trace.class_numbers()
    return [_part(plan, one, name, number == at) for at, name in enumerate(trace.classes, start=1)]


def _part(
    plan: ServerPlan, one: Simulated, part: str, here: np.ndarray[Any, Any], **facts: Any
) -> PartCell:
    raw, trace = one.columns, plan.source.trace.columns()
    done = here & (raw["fate"] == FINISHED)
    ttft: Column = (raw["first_token"] - raw["arrival"])[done]
    felt = quantiles(ttft)
    prompts = int(trace["input_tokens"][done].sum(dtype=np.int64))
    sources = [
        raw["cached_tokens"],
        raw["peer_tokens"],
        *(tier["loaded"] for tier in raw.get("tiers", ())),
    ]
    found = sum(int(tokens[done].sum(dtype=np.int64)) for tokens in sources)
    return PartCell(
        trace=one.cell.trace,
        policy=one.cell.policy,
        capacity_blocks=one.cell.capacity_blocks,
        load=one.cell.load,
        replicas=one.cell.replicas,
        routing=one.cell.routing,
        part=part,
        requests=int(here.sum()),
        finished=int(done.sum()),
        token_hit_rate=found / max(prompts, 1),
        ttft_mean=felt.mean,
        ttft_p50=felt.p50,
        ttft_p99=felt.p99,
        e2e_mean=quantiles((raw["end"] - raw["arrival"])[done]).mean,
        time_factor=plan.time_factor,
        **facts,
    )


def imbalance(engines: Sequence[dict[str, int]]) -> float:
    """Tokens that the busiest replica computed, in times of their mean; 1 is even."""
    computed = [engine["prefill_tokens"] + engine["decode_tokens"] for engine in engines]
    return max(computed) * len(computed) / sum(computed) if sum(computed) else 1.0


def check_fleets(made: Sequence[Fleet], asked: Mapping[str, bool]) -> None:
    """What was ``asked`` for of several servers needs some.

    Raises:
        ConfigError: There is one everywhere; names the option.
    """
    option = next((option for option, is_asked in asked.items() if is_asked), None)
    if option is not None and all(fleet.servers == 1 for fleet in made):
        raise ConfigError(f"{option}: one server has no peers: add --replicas")


def check_heard(made: Sequence[Fleet], asked: Mapping[str, bool]) -> None:
    """What was ``asked`` for of messages needs a router that hears them.

    Raises:
        ConfigError: None does; names the option.
    """
    option = next((option for option, is_asked in asked.items() if is_asked), None)
    hears = any(fleet.routing.hears and fleet.servers > 1 for fleet in made)
    if option is not None and not hears:
        raise ConfigError(
            f"{option}: nobody hears what replicas cache: add --routing prefix or --tell-copies"
        )
