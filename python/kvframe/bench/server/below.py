"""What servers do with their tiers besides: blocks ahead of their session, tiers that all share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kvframe.bench.options import keyed, one_of
from kvframe.bench.server.durations import parse_time
from kvframe.bench.server.fleet import Fleet
from kvframe.bench.server.tiers import ServedTiers, Speed, parse_link
from kvframe.config.sizes import whole
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

FILLS = ("host", "through", "buffer", "direct")
"""What a load from below host memory fills on its way to the pool."""
HIT_REFRESHES = ("first-tier", "none")
"""Whether a hit in the pool is a use of host memory's page, too."""
STORAGE_PREFETCHES = ("wait-complete", "best-effort", "timeout")


class Moves(NamedTuple):
    """How pages move between tiers.

    Attributes:
        prefetch: Requests at the front of the queue whose pages come to host memory meanwhile.
        fill: What a load from below host memory fills: host memory, every tier above, or none.
        storage_prefetch: Whether a request that has come in waits for what is below host memory.
        timeout: So many seconds, with ``storage_prefetch = "timeout"``.
        live: What is evicted from the pool goes down only if its last request told a next use.
        evict_backed_first: The pool evicts blocks of which a tier has a copy first.
        hit_refresh: Whether a hit in the pool is a use of host memory's page, too.
    """

    prefetch: int = 0
    fill: str = FILLS[0]
    storage_prefetch: str = STORAGE_PREFETCHES[0]
    timeout: float = 0.0
    live: bool = False
    evict_backed_first: bool = False
    hit_refresh: str = HIT_REFRESHES[0]


AS_TIERS_DO = Moves()


def parse_moves(prefetch: int, fill: str, storage_prefetch: str, hit_refresh: str) -> Moves:
    """The texts of ``--promote-fill``, ``--storage-prefetch`` and ``--hit-refresh``.

    Raises:
        ConfigError: An unknown value, or a time without a unit.
    """
    kind, equals, time = storage_prefetch.partition("=")
    where = f"--storage-prefetch {storage_prefetch}"
    if kind not in STORAGE_PREFETCHES or (kind == "timeout") != bool(equals):
        known = "wait-complete, best-effort or timeout=TIME"
        raise ConfigError(f"{where}: must be {known}{did_you_mean(kind, STORAGE_PREFETCHES)}")
    seconds = parse_time(time, where) if equals else 0.0
    filled = one_of([fill], "--promote-fill", FILLS)[0]
    refresh = one_of([hit_refresh], "--hit-refresh", HIT_REFRESHES)[0]
    return Moves(prefetch, filled, kind, seconds, hit_refresh=refresh)


def check_live(below: ServedTiers | None, moves: Moves, is_told: bool) -> None:
    """Writes of what comes back need blocks that go down as they are evicted, and next uses.

    Raises:
        ConfigError: They have none.
    """
    if not moves.live:
        return
    if below is not None and below.tiers[0].admission.label != "write-back":
        raise ConfigError(
            f"--live-writes: host memory has admission={below.tiers[0].admission.label}: blocks go "
            "down as they are evicted with admission=write-back"
        )
    if not is_told:
        raise ConfigError("--live-writes: no request tells a next use: add --tell-next-use")


class Returns(NamedTuple):
    """When a session's blocks come back into the pool.

    Attributes:
        after: So many seconds after a turn the next one is expected; None: when the trace has it.
        lead: So many seconds before that the blocks are to be there.
    """

    after: float | None
    lead: float


def parse_returns(text: str | None) -> Returns | None:
    """``lead=500ms`` or ``after=30s,lead=500ms``.

    Raises:
        ConfigError: An unknown key, or a time without a unit.
    """
    if text is None:
        return None
    where, known = f"--prefetch-sessions {text}", ("lead", "after")
    given = keyed(text.split(","), where)
    for key in given:
        if key not in known:
            near = did_you_mean(key, known)
            raise ConfigError(f"{where}: no key {key}: {', '.join(known)}{near}")
    times = {key: parse_time(value, f"{where}: {key} = {value}") for key, value in given.items()}
    return Returns(times.get("after"), times.get("lead", 0.0))


def check_below(below: ServedTiers | None, asked: dict[str, bool]) -> None:
    """What was ``asked`` for of tiers needs some.

    Raises:
        ConfigError: There are none; names the option.
    """
    option = next((option for option, is_asked in asked.items() if is_asked), None)
    if below is None and option is not None:
        raise ConfigError(f"{option}: there is no tier below the pool: add --tier host=SIZE")


def shared(below: ServedTiers, texts: Sequence[str], fleets: Sequence[Fleet]) -> ServedTiers:
    """The tiers, of which replicas have those of these names together: all replicas, or with
    ``host:replicas=4`` each four that follow one another.

    Raises:
        ConfigError: A tier of another name, one above a tier that fewer replicas share, numbers
            that are none or differ, a link of both kinds, a policy from outside the core, or no
            replicas.
    """
    if not texts:
        return below
    told: dict[str, float] = {}
    for text in texts:
        name, count = _sharers(text, below)
        if name in told:
            raise ConfigError(f"--shared-tier {text}: {name} is named twice")
        told[name] = count
    first = texts[0]
    if all(fleet.servers == 1 for fleet in fleets):
        raise ConfigError(f"--shared-tier {first}: one server shares with none: add --replicas")
    nodes = sorted({int(count) for count in told.values() if not math.isinf(count)})
    if len(nodes) > 1:
        raise ConfigError(
            f"--shared-tier {first}: nodes of {nodes[0]} and of {nodes[1]} replicas: give one "
            "number"
        )
    most = max(fleet.servers for fleet in fleets)
    if nodes and nodes[0] > most:
        raise ConfigError(
            f"--shared-tier {first}: nodes of {nodes[0]} of {most} replicas: must be fewer"
        )
    counts = [told.get(name, 1) for name in below.names]
    for place, tier in enumerate(below.tiers):
        where = f"--shared-tier {tier.name}"
        if place and counts[place] < counts[place - 1]:
            above = below.names[place - 1]
            raise ConfigError(
                f"--shared-tier {above}: {tier.name} lies below it: share it, too, or neither"
            )
        other = next(
            (n for n, one in enumerate(below.tiers[:place])
             if one.link == tier.link and counts[n] != counts[place]), None,
        )  # fmt: skip
        if other is not None:
            raise ConfigError(
                f"{where}: its link {tier.link} is that of {below.names[other]}, too, which "
                f"{_who(counts[other])}: give one of them another"
            )
        for choice in (tier.eviction, tier.admission) if counts[place] > 1 else ():
            if not isinstance(choice.engine_policy(1)[0], str):
                raise ConfigError(
                    f"{where}: {choice.label} is from outside the core, and serves one replica: "
                    "take another"
                )
    node = next((n for n, count in enumerate(counts) if 1 < count < math.inf), None)
    return replace(
        below,
        by_node=None if node is None else (node, nodes[0]),
        by_all=next((n for n, count in enumerate(counts) if math.isinf(count)), None),
    )


def _who(count: float) -> str:
    return "each replica has for itself" if count == 1 else f"each {count:g} replicas have"


def _sharers(text: str, below: ServedTiers) -> tuple[str, float]:
    """A tier's name, and how many replicas have it together."""
    name, colon, pair = text.partition(":")
    where = f"--shared-tier {text}"
    if name not in below.names:
        have = f"there are {', '.join(below.names)}"
        raise ConfigError(f"{where}: no such tier: {have}{did_you_mean(name, below.names)}")
    if not colon:
        return name, math.inf
    for key, value in keyed([pair], where).items():
        if key != "replicas":
            raise ConfigError(f"{where}: no key {key}: replicas{did_you_mean(key, ['replicas'])}")
        count = whole(str(value)) or 0
        if count < 2:
            raise ConfigError(f"{where}: replicas = {value}: must be a whole number, 2 or more")
        return name, count
    raise ConfigError(f"{where}: must be a tier, or one with :replicas=N")


def linked(below: ServedTiers | None, texts: Sequence[str]) -> ServedTiers | None:
    """The tiers, whose paths cross the links of these texts: ``pcie=64GB/s,latency=1us``.

    Raises:
        ConfigError: An unknown key or impossible value, two links of one name, a link that no path
            crosses, a path over one that there is not, or over one on which transfers queue.
    """
    ports: dict[str, Speed] = {}
    for text in texts:
        name, port = parse_link(text)
        taken = {*ports, *(below.links() if below else ())}
        if name in taken:
            raise ConfigError(f"--link {text}: there is a link {name}: take another name")
        ports[name] = port
    tiers = () if below is None else below.tiers
    for tier in tiers:
        for name in tier.path:
            if name not in ports:
                near = did_you_mean(name, ports)
                raise ConfigError(
                    f"tier {tier.name}: path = {tier.config.path}: there is no --link {name}{near}"
                )
        if tier.path and tier.speed.each is None:
            raise ConfigError(
                f"tier {tier.name}: path = {tier.config.path}: its transfers queue: add "
                "sharing=even"
            )
    unused = next((name for name in ports if not any(name in tier.path for tier in tiers)), None)
    if unused is not None:
        raise ConfigError(f"--link {unused}: no tier has it in its path: add path={unused} to one")
    return below if below is None else replace(below, ports=ports)
