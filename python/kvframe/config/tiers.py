"""``[[tiers]]``: what keeps the bytes, what says which are evicted, and how many pages fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kvframe.config.faults import Faults
from kvframe.config.origins import Origins, join
from kvframe.config.policies import Chosen, Finder
from kvframe.config.rates import near_rate, parse_rate, parse_time
from kvframe.config.schema import MAX_BLOCKS, TenantConfig, TierConfig
from kvframe.config.sizes import UNITS, near_bytes, parse_bytes, whole
from kvframe.config.text import brief
from kvframe.errors import ConfigError
from kvframe.registry.descriptors import AdmissionPolicy, EvictionPolicy, TierStore
from kvframe.spelling import did_you_mean

if TYPE_CHECKING:
    from kvframe.config.tree import Config

HOST = "host"
MOVED = "moved"
"""What the counters of tiers (`Tiers.stats`) have beside the tiers' names."""


class KeyFile(NamedTuple):
    """A file with a secret, and the key of the configuration that names it.

    Attributes:
        path: The file.
        key: As ``tiers[1].key_file``.
        where: The start of a message about it: ``FILE:LINE: ``, ``VARIABLE: `` or nothing.
    """

    path: str
    key: str
    where: str

    def error(self, reason: str) -> ConfigError:
        """``FILE:LINE: KEY = PATH: REASON``."""
        return ConfigError(f"{self.where}{self.key} = {brief(self.path)}: {reason}")


@dataclass(frozen=True)
class ResolvedTier:
    """A tier of the configuration, checked.

    Attributes:
        config: Every value.
        pages: Pages that fit; one is a block of every layer group.
        eviction: Its eviction policy, imported, with its options.
        admission: Its admission policy likewise.
        store: The store of its bytes likewise; None for host memory.
        tenants: Those that have shares of it, in the order of ``[[tenants]]`` and with all others;
            none if no tenant has a share of anything.
        key_file: The file of its pages' secret; None if it has none.
        own_keys: Those of tenants' own secrets, by their names.
    """

    config: TierConfig
    pages: int
    eviction: Chosen[EvictionPolicy]
    admission: Chosen[AdmissionPolicy]
    store: Chosen[TierStore] | None = None
    tenants: tuple[TenantConfig, ...] = ()
    key_file: KeyFile | None = None
    own_keys: tuple[tuple[str, KeyFile], ...] = ()


def shares(tenants: Sequence[TenantConfig]) -> tuple[TenantConfig, ...]:
    """What tenants have of a tier: shares hold in each; numbers of blocks are of the pool alone, as
    is what public prefixes have: in a tier each tenant keeps public pages of its own.
    """
    in_tiers = [
        TenantConfig(
            name=tenant.name,
            floor=tenant.floor if isinstance(tenant.floor, float) and not tenant.public else 0,
            quota=tenant.quota if isinstance(tenant.quota, float) else None,
        )
        for tenant in tenants
    ]
    some = any(tenant.floor or tenant.quota is not None for tenant in in_tiers)
    return tuple(in_tiers) if some else ()


def check_tiers(config: Config, origins: Origins) -> Iterator[ConfigError]:
    """Names are unique, marks rise, host memory comes first and holds pages as they are."""
    names = [tier.name for tier in config.tiers]
    for index, tier in enumerate(config.tiers):
        here = join("tiers", index)
        if tier.name in names[:index]:
            yield origins.error(join(here, "name"), tier.name, "is another tier's name too")
        if tier.name == MOVED:
            reason = "stands for the directions in the tiers' counters: take another"
            yield origins.error(join(here, "name"), tier.name, reason)
        if tier.low > tier.high:
            yield origins.error(join(here, "low"), tier.low, f"must be at most high = {tier.high}")
        yield from _check_link(tier, here, origins)
    on = _on(config)
    if on and config.cache.hash == "xxh3-128":
        yield origins.error(
            "cache.hash",
            config.cache.hash,
            "tiers need a cryptographic hash: they keep no tokens to compare",
        )
    encrypted = any(tier.encryption != "none" for _, tier in on)
    for index, tenant in enumerate(config.tenants):
        if tenant.key_file is None or (encrypted and not tenant.public):
            continue
        reason = (
            "encrypts nothing: public pages are under the key of no tenant: leave it out"
            if tenant.public
            else 'encrypts nothing: no tier says encryption = "aes-256-gcm"'
        )
        yield origins.error(join(join("tenants", index), "key_file"), tenant.key_file, reason)
    for place, (path, tier) in enumerate(on):
        first = place == 0
        if first != (tier.store == HOST):
            reason = (
                "the first tier is host memory: leave store out here, and say it of the next tier"
                if first
                else "only the first tier is host memory: name a store that kvframe plugins lists"
            )
            yield origins.error(join(path, "store"), tier.store, reason)
        keyed = tier.checksum == "hmac-sha256", tier.encryption != "none"
        if all(keyed):
            reason = "encryption has a tag of its own: leave one of them out"
            yield origins.error(join(path, "checksum"), tier.checksum, reason)
        elif any(keyed) != (tier.key_file is not None):
            reason = (
                'goes with checksum = "hmac-sha256" or with encryption, and neither without the '
                "other"
            )
            yield origins.error(join(path, "key_file"), tier.key_file, reason)
        if not first:
            continue
        if tier.key_file is not None:
            reason = "host memory is this process's own: say it of a tier below"
            yield origins.error(join(path, "key_file"), tier.key_file, reason)
        for key in ("compression", "quantise", "encryption"):
            if getattr(tier, key) != "none":
                reason = "host memory holds pages as they are: say it of a tier below"
                yield origins.error(join(path, key), getattr(tier, key), reason)
        for name, value in tier.options.items():
            where = join(join(path, "options"), name)
            yield origins.error(where, value, "host memory takes no options")


def _check_link(tier: TierConfig, here: str, origins: Origins) -> Iterator[ConfigError]:
    """What a simulated server is told of the tier's link can be read."""
    for key in ("read", "write", "each"):
        rate = getattr(tier, key)
        if rate is not None and parse_rate(rate) is None:
            reason = f'must be bytes a second, such as "50 GB/s"{near_rate(rate)}'
            yield origins.error(join(here, key), rate, reason)
    if tier.latency is not None and parse_time(tier.latency) is None:
        reason = 'must be a time, such as "20 us" or "1 ms"'
        yield origins.error(join(here, "latency"), tier.latency, reason)
    if tier.each is not None and tier.sharing == "in-turn":
        reason = 'transfers that go in turn have all of the link: add sharing = "even"'
        yield origins.error(join(here, "each"), tier.each, reason)
    told = tier.break_even
    if isinstance(told, str) and told != "auto" and not _is_blocks(told):
        reason = f'must be tokens, at most {MAX_BLOCKS}, or "auto"{did_you_mean(told, ("auto",))}'
        yield origins.error(join(here, "break_even"), told, reason)


def _is_blocks(text: str) -> bool:
    number = whole(text)
    return number is not None and number <= MAX_BLOCKS


def _on(config: Config) -> list[tuple[str, TierConfig]]:
    given = ((join("tiers", index), tier) for index, tier in enumerate(config.tiers))
    return [(path, tier) for path, tier in given if tier.capacity != 0]


def resolve_tiers(
    config: Config, finder: Finder, page_bytes: int | None, faults: Faults
) -> tuple[ResolvedTier, ...]:
    """The tiers of a configuration that are on; what is wrong with one goes to ``faults``."""
    tiers = []
    for path, tier in _on(config):
        with faults:
            made = _resolve(tier, path, finder, page_bytes)
            tiers.append(
                replace(
                    made,
                    tenants=shares(config.tenants),
                    key_file=_key_file(tier.key_file, path, finder.origins),
                    own_keys=_own_keys(config.tenants, finder.origins),
                )
            )
    return tuple(tiers)


def _own_keys(tenants: Sequence[TenantConfig], origins: Origins) -> tuple[tuple[str, KeyFile], ...]:
    found = (
        (tenant.name, _key_file(tenant.key_file, join("tenants", index), origins))
        for index, tenant in enumerate(tenants)
    )
    return tuple((name, file) for name, file in found if file is not None)


def _key_file(path: str | None, table: str, origins: Origins) -> KeyFile | None:
    if path is None:
        return None
    key = join(table, "key_file")
    return KeyFile(path, key, origins.where(key))


def _resolve(tier: TierConfig, path: str, finder: Finder, page_bytes: int | None) -> ResolvedTier:
    faults, known, origins = Faults(), finder.registry, finder.origins
    with faults:
        pages = _pages(tier, join(path, "capacity"), origins, page_bytes)
    with faults:
        table, here = tier.eviction, join(path, "eviction")
        eviction = finder.choose(known.eviction, "eviction", table.policy, table.options, here)
        if eviction.loaded.descriptor.replay_only:
            reason = "ranks no pages of a tier: take another"
            raise origins.error(join(here, "policy"), table.policy, reason)
    with faults:
        gate, here = tier.admission, join(path, "admission")
        admission = finder.choose(known.admission, "admission", gate.policy, gate.options, here)
    store = None
    if tier.store != HOST:
        with faults:
            store = finder.choose(known.store, "store", tier.store, tier.options, path, "store")
    faults.tell()
    return ResolvedTier(tier, pages, eviction, admission, store)


def _pages(tier: TierConfig, path: str, origins: Origins, page_bytes: int | None) -> int:
    if isinstance(tier.capacity, int):
        return tier.capacity
    size = parse_bytes(tier.capacity)
    if size is None:
        reason = f'must be pages (4096), or bytes with a unit ("64 GiB"; {UNITS})'
        reason += near_bytes(tier.capacity)
        raise origins.error(path, tier.capacity, reason)
    if page_bytes is None:  # the model's errors are reported already
        return 0
    if not page_bytes:
        raise origins.error(path, tier.capacity, "bytes need [model], which says what a page takes")
    pages = size // page_bytes
    if not 1 <= pages <= MAX_BLOCKS:
        reason = f"gives {pages} pages of {page_bytes} bytes; must be between 1 and {MAX_BLOCKS}"
        raise origins.error(path, tier.capacity, reason)
    return pages
