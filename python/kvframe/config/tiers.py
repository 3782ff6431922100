"""``[[tiers]]``: who keeps the bytes, who says what dies, and how many pages fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvframe.config.origins import Origins, join
from kvframe.config.rules import build_options, find
from kvframe.config.schema import MAX_BLOCKS, TierConfig
from kvframe.config.sizes import UNITS, parse_bytes
from kvframe.descriptors import AdmissionPolicy, EvictionPolicy, TierStore
from kvframe.registry import Loaded, Registry

if TYPE_CHECKING:
    from kvframe.config.tree import Config

HOST = "host"
MOVED = "moved"
"""What the counters of tiers (`Tiers.stats`) have beside the tiers' names."""


@dataclass(frozen=True)
class ResolvedTier:
    """A tier that holds.

    Attributes:
        config: Every value.
        pages: Pages that fit; one is a block of every layer group.
        policy: Its eviction policy, imported.
        policy_options: That policy's checked options; None if it takes none.
        admission: Its admission policy, imported.
        admission_options: That policy's checked options; None if it takes none.
        store: What keeps its bytes, imported; None for host memory.
        store_options: Its checked options; None if it takes none.
    """

    config: TierConfig
    pages: int
    policy: Loaded[EvictionPolicy]
    policy_options: msgspec.Struct | None
    admission: Loaded[AdmissionPolicy]
    admission_options: msgspec.Struct | None
    store: Loaded[TierStore] | None = None
    store_options: msgspec.Struct | None = None

    @property
    def policy_values(self) -> dict[str, Any]:
        """The policy's options as plain values, as the core takes them."""
        return _values(self.policy_options)

    @property
    def admission_values(self) -> dict[str, Any]:
        """The admission policy's options likewise."""
        return _values(self.admission_options)


def _values(options: msgspec.Struct | None) -> dict[str, Any]:
    if options is None:
        return {}
    values: dict[str, Any] = msgspec.to_builtins(options)
    return {name: value for name, value in values.items() if value is not None}


def resolve_tiers(
    config: Config, registry: Registry, origins: Origins, page_bytes: int
) -> tuple[ResolvedTier, ...]:
    """The tiers of a configuration, without those that are off.

    Raises:
        ConfigError: A value is impossible, or does not go with another.
        PluginError: A policy or a store is not found, blocked or broken.
    """
    _check_names(config, origins)
    given = ((join("tiers", index), tier) for index, tier in enumerate(config.tiers))
    found = [(path, tier) for path, tier in given if tier.capacity != 0]
    if found and config.cache.hash == "xxh3-128":
        raise origins.error(
            "cache.hash",
            config.cache.hash,
            "tiers need a cryptographic hash: they keep no tokens to compare",
        )
    return tuple(
        _resolve(tier, path, registry, origins, page_bytes, first=place == 0)
        for place, (path, tier) in enumerate(found)
    )


def _check_names(config: Config, origins: Origins) -> None:
    names = [tier.name for tier in config.tiers]
    for index, tier in enumerate(config.tiers):
        here = join("tiers", index)
        if tier.name in names[:index]:
            raise origins.error(join(here, "name"), tier.name, "is another tier's name too")
        if tier.name == MOVED:
            reason = "stands for the directions in the tiers' counters: take another"
            raise origins.error(join(here, "name"), tier.name, reason)
        if tier.low > tier.high:
            raise origins.error(join(here, "low"), tier.low, f"must be at most high = {tier.high}")


def _resolve(
    tier: TierConfig,
    path: str,
    registry: Registry,
    origins: Origins,
    page_bytes: int,
    *,
    first: bool,
) -> ResolvedTier:
    pages = _pages(tier, join(path, "capacity"), origins, page_bytes)
    policy = find(registry.eviction, tier.eviction, join(path, "eviction"), origins)
    if policy.descriptor.replay_only:
        raise origins.error(
            join(path, "eviction"), tier.eviction, "ranks no pages of a tier: take another"
        )
    options_path = join(path, "eviction_options")
    options = build_options(policy.descriptor, tier.eviction_options, options_path, origins)
    gate = find(registry.admission, tier.admission, join(path, "admission"), origins)
    options_path = join(path, "admission_options")
    gating = build_options(gate.descriptor, tier.admission_options, options_path, origins)
    if first != (tier.store == HOST):
        reason = "the first tier is host memory, and those below are not"
        raise origins.error(join(path, "store"), tier.store, reason)
    if first:
        for key in ("compression", "quantise"):
            if getattr(tier, key) != "none":
                reason = "host memory holds pages as they are: say it of a tier below"
                raise origins.error(join(path, key), getattr(tier, key), reason)
        for name, value in tier.options.items():
            where = join(join(path, "options"), name)
            raise origins.error(where, value, "host memory takes no options")
        return ResolvedTier(tier, pages, policy, options, gate, gating)
    store = find(registry.tier, tier.store, join(path, "store"), origins)
    made = build_options(store.descriptor, tier.options, join(path, "options"), origins)
    return ResolvedTier(tier, pages, policy, options, gate, gating, store, made)


def _pages(tier: TierConfig, path: str, origins: Origins, page_bytes: int) -> int:
    if isinstance(tier.capacity, int):
        return tier.capacity
    size = parse_bytes(tier.capacity)
    if size is None:
        reason = f'must be pages (4096), or bytes with a unit ("64 GiB"; {UNITS})'
        raise origins.error(path, tier.capacity, reason)
    if not page_bytes:
        raise origins.error(path, tier.capacity, "bytes need [model], which says what a page takes")
    pages = size // page_bytes
    if not 1 <= pages <= MAX_BLOCKS:
        reason = f"gives {pages} pages of {page_bytes} bytes; must be between 1 and {MAX_BLOCKS}"
        raise origins.error(path, tier.capacity, reason)
    return pages
