"""What servers do with their tiers besides: blocks ahead of their session, tiers that all share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kvframe.bench.options import keyed, one_of
from kvframe.bench.server.durations import parse_time
from kvframe.bench.server.fleet import Fleet
from kvframe.bench.server.tiers import ServedTiers
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

FILLS = ("host", "through", "buffer", "direct")
"""What a load from below host memory fills on its way to the pool."""
STORAGE_PREFETCHES = ("wait-complete", "best-effort", "timeout")


class Moves(NamedTuple):
    """How pages move between tiers.

    Attributes:
        prefetch: Requests at the front of the queue whose pages come to host memory meanwhile.
        fill: What a load from below host memory fills: host memory, every tier above, or none.
        storage_prefetch: Whether a request that has come in waits for what is below host memory.
        timeout: So many seconds, with ``storage_prefetch = "timeout"``.
        live: What is evicted from the pool goes down only if its last request told a next use.
    """

    prefetch: int = 0
    fill: str = FILLS[0]
    storage_prefetch: str = STORAGE_PREFETCHES[0]
    timeout: float = 0.0
    live: bool = False


AS_TIERS_DO = Moves()


def parse_moves(prefetch: int, fill: str, storage_prefetch: str, live: bool) -> Moves:
    """The texts of ``--promote-fill`` and ``--storage-prefetch``, and the rest.

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
    return Moves(prefetch, filled, kind, seconds, live)


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


def shared(below: ServedTiers, names: Sequence[str], fleets: Sequence[Fleet]) -> ServedTiers:
    """The tiers, of which replicas have those of these names together.

    Raises:
        ConfigError: A tier of another name, one above a tier that each replica has for itself, a
            link of both kinds, a policy from outside the core, or no replicas.
    """
    if not names:
        return below
    for name in names:
        if name not in below.names:
            have = f"there are {', '.join(below.names)}"
            raise ConfigError(
                f"--shared-tier {name}: no such tier: {have}{did_you_mean(name, below.names)}"
            )
    if all(fleet.servers == 1 for fleet in fleets):
        raise ConfigError(f"--shared-tier {names[0]}: one server shares with none: add --replicas")
    start = min(below.names.index(name) for name in names)
    for tier in below.tiers[start:]:
        where = f"--shared-tier {tier.name}"
        if tier.name not in names:
            raise ConfigError(
                f"--shared-tier {names[0]}: {tier.name} lies below it: share it, too, or neither"
            )
        above = next((one for one in below.tiers[:start] if one.link == tier.link), None)
        if above is not None:
            raise ConfigError(
                f"{where}: its link {tier.link} is that of {above.name}, too, which each replica "
                "has for itself: give one of them another"
            )
        for choice in (tier.eviction, tier.admission):
            if not isinstance(choice.engine_policy(1)[0], str):
                raise ConfigError(
                    f"{where}: {choice.label} is from outside the core, and serves one replica: "
                    "take another"
                )
    return replace(below, shared_from=start)
