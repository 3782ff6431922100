"""The tiers below a simulated server's pool, and the links over which their pages travel.

``--tier host=40GiB,read=50GB/s,write=50GB/s,latency=20us,eviction=lru,admission=write-back``, or
``[[tiers]]`` of a kvframe.toml, which has the same keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from kvframe.bench import admissions, policies
from kvframe.bench.admissions import Admission
from kvframe.bench.options import OptionOrigins, keyed
from kvframe.bench.policies import Choice
from kvframe.bench.server.links import parse_latency, parse_rate
from kvframe.config import Resolved, TierConfig
from kvframe.config.environment import EnvText
from kvframe.config.schema import MAX_BLOCKS
from kvframe.config.sizes import UNITS, near_bytes, parse_bytes, rounded, whole
from kvframe.config.tiers import ResolvedTier
from kvframe.config.values import build
from kvframe.errors import ConfigError
from kvframe.registry import Registry
from kvframe.spelling import did_you_mean


class Speed(NamedTuple):
    """A link.

    Attributes:
        read: Bytes a second towards the pool.
        write: Bytes a second away from it.
        latency: Seconds that a transfer takes besides.
        each: Bytes a second of one transfer at most, where all share the link evenly; None: they
            queue.
    """

    read: float
    write: float
    latency: float
    each: float | None = None

    def is_like(self, other: Speed) -> bool:
        """Whether the other one is the same, but for rounding."""
        return (self.each is None) == (other.each is None) and np.allclose(
            [value for value in self if value is not None],
            [value for value in other if value is not None],
            rtol=1e-9,
            atol=0,
        )


ASSUMED = {
    "host": Speed(50e9, 50e9, 20e-6),
    "disk": Speed(6e9, 3e9, 100e-6),
    "remote": Speed(10e9, 10e9, 200e-6),
}
"""Links where nothing is said of them: PCIe 5.0, a fast NVMe disk, 100 Gbit/s."""


class Size(NamedTuple):
    """What a tier holds.

    Attributes:
        name: The tier's.
        pages: How many.
        page_bytes: Bytes of each, as it is stored.
    """

    name: str
    pages: int
    page_bytes: float

    @property
    def bytes(self) -> float:
        """All of them."""
        return self.pages * self.page_bytes


@dataclass(frozen=True)
class ServedTier:
    """A tier of a simulated server.

    Attributes:
        name: As it was asked for.
        kind: ``host``, ``disk`` or ``remote``.
        config: Every key.
        eviction: Its eviction policy.
        admission: Its admission policy.
        speed: Of its link.
        link: The name of its link; tiers that name one share it.
        pages: What fits, where the configuration has counted it, of ``page_tokens`` tokens each.
        page_tokens: See ``pages``.
        assumed: Keys of its link of which nothing was said.
    """

    name: str
    kind: str
    config: TierConfig
    eviction: Choice
    admission: Admission
    speed: Speed
    link: str
    pages: int | None = None
    page_tokens: int = 0
    assumed: tuple[str, ...] = ()

    def pages_of(self, page_bytes: int, block_size: int) -> int:
        """Pages that fit, of so many bytes.

        Raises:
            ConfigError: Not one does.
        """
        if self.pages is not None:
            pages = self.pages * self.page_tokens // block_size
        elif isinstance(self.config.capacity, int):
            pages = self.config.capacity
        else:
            pages = min((parse_bytes(self.config.capacity) or 0) // page_bytes, MAX_BLOCKS)
        if pages < 1:
            raise ConfigError(
                f"tier {self.name}: {self.config.capacity} holds no page of {rounded(page_bytes)}"
            )
        return pages

    def size(self, page_bytes: int, block_size: int) -> Size:
        """What it holds of pages that have so many bytes in the pool."""
        stored = page_bytes / 2 if self.config.quantise == "fp8" else float(page_bytes)
        return Size(self.name, self.pages_of(page_bytes, block_size), stored)

    @property
    def path(self) -> list[str]:
        """Links that it crosses beside its own, to the pool or from it."""
        return [] if self.config.path is None else self.config.path.split("+")

    def table(self, page_bytes: int, block_size: int, links: Sequence[str]) -> dict[str, Any]:
        """The same for the core, of these links."""
        config = self.config
        policy, options = self.eviction.engine_policy(block_size)
        gate, gate_options = self.admission.engine_policy(block_size)
        size = self.size(page_bytes, block_size)
        return {
            "kind": self.kind,
            "pages": size.pages,
            "in_flight": config.in_flight,
            "backed_first": config.backed_first,
            "high": config.high,
            "low": config.low,
            "refuses": config.when_full == "refuse",
            "page_bytes": size.page_bytes,
            "link": links.index(self.link),
            "path": [links.index(name) for name in self.path],
            "break_even": _break_even(config, self.name),
            "eviction": policy,
            "eviction_options": options,
            "admission": gate,
            "admission_options": gate_options,
        }


@dataclass(frozen=True, eq=False)
class ServedTiers:
    """All tiers, host memory first.

    Attributes:
        tiers: Each.
        by_node: From this place down, so many replicas have them together; None: each for itself.
        by_all: From this place down, all replicas have; None: not all.
        ports: Links of each replica beside those of its tiers.
    """

    tiers: tuple[ServedTier, ...]
    by_node: tuple[int, int] | None = None
    by_all: int | None = None
    ports: Mapping[str, Speed] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Their names."""
        return "+".join(self.names)

    @property
    def names(self) -> list[str]:
        """The same, one by one."""
        return [tier.name for tier in self.tiers]

    @property
    def is_shared(self) -> bool:
        """Whether replicas have some tier together."""
        return self.by_node is not None or self.by_all is not None

    def sharers(self, place: int) -> float:
        """How many replicas have this tier together; infinitely many: all."""
        if self.by_all is not None and place >= self.by_all:
            return math.inf
        return self.by_node[1] if self.by_node is not None and place >= self.by_node[0] else 1

    def copies(self, place: int, servers: int) -> int:
        """How often so many replicas have it."""
        return math.ceil(servers / min(self.sharers(place), servers))

    @property
    def identity(self) -> list[dict[str, object]]:
        """What of them decides which tokens are found."""
        return [
            {
                "config": msgspec.to_builtins(tier.config),
                "eviction": (tier.eviction.name, tier.eviction.version, tier.eviction.source_hash,
                             tier.eviction.option_values),
                "admission": tier.admission.identity,
            }
            for tier in self.tiers
        ]  # fmt: skip

    @property
    def told(self) -> str:
        """What they are, in a few words."""
        said = []
        for place, tier in enumerate(self.tiers):
            size = tier.config.capacity
            size = f"{size:,} pages" if isinstance(size, int) else size
            sharers = self.sharers(place)
            if sharers > 1:
                size = f"{size} for {'all' if math.isinf(sharers) else f'each {sharers} replicas'}"
            said.append(
                f"{tier.name} {size}, {tier.speed.read / 1e9:g} GB/s up, "
                f"{tier.speed.write / 1e9:g} GB/s down{_manner(tier.speed)}, {tier.admission.label}"
            )
        return "; ".join(said)

    def links(self) -> dict[str, Speed]:
        """Each link once, in the order of the tiers."""
        found: dict[str, Speed] = {}
        for tier in self.tiers:
            if tier.link not in found or not tier.assumed:
                found[tier.link] = tier.speed
        return {**found, **self.ports}

    def sizes(self, page_bytes: int, block_size: int) -> list[Size]:
        """What each holds.

        Raises:
            ConfigError: A tier holds no page.
        """
        return [tier.size(page_bytes, block_size) for tier in self.tiers]

    def tables(self, page_bytes: int, block_size: int) -> list[dict[str, Any]]:
        """The tiers for the core; policies are made anew.

        Raises:
            ConfigError: A tier holds no page.
            PluginError: A policy cannot be made.
        """
        names = list(self.links())
        return [tier.table(page_bytes, block_size, names) for tier in self.tiers]

    @property
    def remarks(self) -> list[str]:
        """What figures with these tiers depend on."""
        said = []
        for tier in self.tiers:
            if tier.assumed:
                was = "was" if len(tier.assumed) == 1 else "were"
                said.append(
                    f"tier {tier.name}: {' and '.join(tier.assumed)} of its link {was} not given: "
                    f"{tier.speed.read / 1e9:g} GB/s up, {tier.speed.write / 1e9:g} GB/s down and "
                    f"{tier.speed.latency * 1e6:g} us were taken."
                )
            if tier.config.compression != "none" or tier.config.timeout_ms is not None:
                said.append(
                    f"tier {tier.name}: compression and timeout_ms are not simulated; nothing "
                    "fails here."
                )
        return said


def parse_tiers(texts: Sequence[str], registry: Registry) -> ServedTiers | None:
    """The tiers of ``--tier``, nearest first; None if there are none.

    Raises:
        ConfigError: A key that no tier has, an impossible value, or tiers in another order.
        PluginError: An unknown or broken policy.
    """
    tiers = [_parse(text, registry) for text in texts]
    return _checked(tiers, "--tier") if tiers else None


def _parse(text: str, registry: Registry) -> ServedTier:
    name, _, rest = text.partition("=")
    where = f"--tier {text}"
    if name in ASSUMED and not rest:
        raise ConfigError(f"{where}: needs a size, as --tier '{name}=64 GiB'")
    if name not in ASSUMED:
        near = did_you_mean(name, ASSUMED)
        raise ConfigError(f"{where}: must begin with host=, disk= or remote= and a size{near}")
    size, *pairs = rest.split(",")
    given = keyed(pairs, where)
    eviction = policies.choose(str(given.pop("eviction", EnvText("lru"))), registry)
    gate = admissions.choose(str(given.pop("admission", EnvText("write-through"))), registry)
    capacity = size if (pages := whole(size)) is None else pages
    values = {**given, "name": name, "capacity": capacity}
    config: TierConfig = build(TierConfig, values, "", OptionOrigins(where))
    if isinstance(capacity, str) and parse_bytes(capacity) is None:
        raise ConfigError(
            f"{where}: {size}: must be pages, or bytes with a unit ({UNITS}){near_bytes(size)}"
        )
    return _served(config, name, eviction, gate, where)


def parse_link(text: str) -> tuple[str, Speed]:
    """A link that transfers share evenly: ``pcie=64GB/s,write=32GB/s,latency=1us,each=16GB/s``.

    Raises:
        ConfigError: An unknown key or an impossible value.
    """
    name, equals, rest = text.partition("=")
    where, known = f"--link {text}", ("write", "latency", "each")
    if not equals or not name:
        raise ConfigError(f"{where}: must be NAME=RATE, such as pcie=64GB/s")
    rate, *pairs = rest.split(",")
    read = parse_rate(rate, f"--link {name}")
    write, latency, each = read, 0.0, math.inf
    for key, value in keyed(pairs, where).items():
        if key not in known:
            near = did_you_mean(key, known)
            raise ConfigError(f"{where}: no key {key}: {', '.join(known)}{near}")
        if key == "latency":
            latency = parse_latency(str(value), f"{where}: latency")
        elif key == "write":
            write = parse_rate(str(value), f"{where}: write")
        else:
            each = parse_rate(str(value), f"{where}: each")
    return name, Speed(read, write, latency, each)


def configured_tiers(resolved: Resolved) -> ServedTiers | None:
    """The tiers of a configuration; None if it has none.

    Raises:
        ConfigError: A link's speed is impossible, or several layer groups lie above.
    """
    size, groups = resolved.config.cache.block_size, resolved.config.groups
    if resolved.tiers and (len(groups) > 1 or groups[0].kind != "full"):
        names = ", ".join(f"{group.name} ({group.kind})" for group in groups)
        raise ConfigError(
            f"groups: {names}: tiers are simulated below one group of full attention; leave "
            "[[tiers]] or the groups out"
        )
    tiers = [_configured(tier, size, place == 0) for place, tier in enumerate(resolved.tiers)]
    return _checked(tiers, "[[tiers]]") if tiers else None


def _configured(tier: ResolvedTier, size: int, is_first: bool) -> ServedTier:
    shared = tier.store is not None and tier.store.loaded.descriptor.shared
    kind = "host" if is_first else "remote" if shared else "disk"
    served = _served(
        tier.config, kind, Choice.of(tier.eviction), Admission.of(tier.admission),
        f"tier {tier.config.name}",
    )  # fmt: skip
    return ServedTier(
        **{**served.__dict__, "name": tier.config.name, "pages": tier.pages, "page_tokens": size}
    )


def _served(
    config: TierConfig, kind: str, eviction: Choice, admission: Admission, where: str
) -> ServedTier:
    if eviction.replay_only and eviction.name != "opt":
        raise ConfigError(f"{where}: {eviction.label} ranks no pages of a tier: take another")
    assumed = tuple(key for key in ("read", "write", "latency") if getattr(config, key) is None)
    taken = ASSUMED[kind]
    speed = Speed(
        taken.read if config.read is None else parse_rate(config.read, f"{where}: read"),
        taken.write if config.write is None else parse_rate(config.write, f"{where}: write"),
        taken.latency
        if config.latency is None
        else parse_latency(config.latency, f"{where}: latency"),
        _each(config, where),
    )
    _break_even(config, where)
    return ServedTier(
        config.name, kind, config, eviction, admission, speed, config.link or config.name,
        assumed=assumed,
    )  # fmt: skip


def _checked(tiers: Sequence[ServedTier], where: str) -> ServedTiers:
    names = [tier.name for tier in tiers]
    for place, tier in enumerate(tiers):
        if (place == 0) != (tier.kind == "host"):
            raise ConfigError(f"{where}: host memory is the first tier, and no other is")
        if tier.name in names[:place]:
            raise ConfigError(f"{where}: two tiers have the name {tier.name}")
        told = (one for one in tiers if one.link == tier.link and not one.assumed)
        first = next(told, tier)
        if not tier.assumed and not first.speed.is_like(tier.speed):
            raise ConfigError(
                f"{where}: {first.name} and {tier.name} share the link {tier.link}: give both the "
                "same read, write, latency, sharing and each, or say them once"
            )
    return ServedTiers(tuple(tiers))


def _manner(speed: Speed) -> str:
    if speed.each is None:
        return ""
    return " shared evenly" + (
        "" if math.isinf(speed.each) else f", {speed.each / 1e9:g} GB/s each at most"
    )


def _each(config: TierConfig, where: str) -> float | None:
    """Bytes a second of one transfer at most, where transfers share the link evenly."""
    if config.sharing == "in-turn":
        if config.each is not None:
            raise ConfigError(
                f"{where}: each = {config.each}: transfers that go in turn have all of the link: "
                "add sharing=even"
            )
        return None
    return math.inf if config.each is None else parse_rate(config.each, f"{where}: each")


def _break_even(config: TierConfig, where: str) -> int | None:
    """Tokens below which nothing is loaded; None where they follow from the times, 0 for none."""
    told = config.break_even
    if told == "auto":
        return None
    tokens = told if isinstance(told, int) else whole(told)
    if tokens is None or tokens > MAX_BLOCKS:
        near = did_you_mean(str(told), ("auto",))
        raise ConfigError(
            f"{where}: break_even = {told}: must be tokens, at most {MAX_BLOCKS}, or auto{near}"
        )
    return tokens
