"""The core of a manager, made from a configuration."""

from __future__ import annotations

import logging
from typing import Any

from kvframe import _core
from kvframe.config import Config, Resolved
from kvframe.config.origins import Origins, join
from kvframe.config.rules import core_table
from kvframe.drivers import admission, eviction, prefix
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import NativeDriver
from kvframe.errors import UsageError
from kvframe.files import why_unread
from kvframe.prompts import check_index
from kvframe.public import PublicPrefixes

_log = logging.getLogger("kvframe.manager")

Evicting = eviction.EvictionDriver | NativeDriver

Each = Evicting | list[Evicting]
"""A driver of the eviction policy, or one for each tenant after that of all others."""


def drivers_of(
    resolved: Resolved,
) -> tuple[Each | None, admission.AdmissionDriver | None, prefix.PrefixDriver | None]:
    """The drivers of policies from outside the core, a kind each; None if it has the policy."""
    config = resolved.config
    gate = gate_of(resolved)
    terms = Terms.of(config.prefix, resolved.prefix.options, config.cache.block_size)
    matcher = prefix.driver(resolved.prefix.loaded, terms)
    check_index(matcher, config)
    return evicting_of(resolved), gate, matcher


def gate_of(resolved: Resolved) -> admission.AdmissionDriver | None:
    """The driver of the admission policy, made anew."""
    config = resolved.config
    terms = Terms.of(config.admission, resolved.admission.options, config.cache.block_size)
    return admission.driver(resolved.admission.loaded, terms)


def evicting_of(resolved: Resolved) -> Each | None:
    """The driver of the eviction policy, or of each tenant's, made anew."""
    config = resolved.config
    terms = Terms.of(config.eviction, resolved.eviction.options, config.cache.block_size)
    made = eviction.driver(resolved.eviction.loaded, terms)
    if made is None or not config.tenants:
        return made
    # One more for each: what it sees and remembers is its tenant's alone.
    more = (eviction.driver(resolved.eviction.loaded, terms) for _ in config.tenants)
    return [made, *(one for one in more if one is not None)]


def core_of(
    resolved: Resolved,
    evicting: Each | None,
    gate: admission.AdmissionDriver | None,
    matcher: prefix.PrefixDriver | None,
) -> _core.Manager:
    """The core's manager, with the drivers of policies from outside the core."""
    matching = {
        "prefix.matched": matcher is not None,
        "prefix.mirrored": matcher is not None and matcher.is_index,
    }
    core = _core.Manager({**table_of(resolved, evicting, gate), **matching})
    if _log.isEnabledFor(logging.INFO):
        _tell(resolved)
    return core


def table_of(
    resolved: Resolved, evicting: Each | None, gate: admission.AdmissionDriver | None
) -> dict[str, Any]:
    """The core's table of options, with its policies or their drivers."""
    return {
        **core_table(resolved.config, resolved.capacity_blocks),
        "eviction.policy": evicting or resolved.eviction.name,
        "eviction.options": resolved.eviction.values,
        "admission.policy": gate or resolved.admission.name,
        "admission.options": resolved.admission.values,
    }


def public_of(resolved: Resolved) -> PublicPrefixes | None:
    """What all requests share, if they share anything.

    Raises:
        ConfigError: The file is no list of prefixes, or the public tenant's floor is too small.
    """
    config, origins = resolved.config, Origins(resolved.provenance)
    path = config.prefix.public
    if path is None:
        return None
    try:
        public = PublicPrefixes.read(path, config.cache.block_size)
    except UsageError as error:
        raise origins.error("prefix.public", path, str(error)) from error
    except (OSError, ValueError) as error:
        raise origins.error("prefix.public", path, why_unread(error, path)) from error
    check_public_floor(resolved, public)
    return public


def check_public_floor(resolved: Resolved, public: PublicPrefixes) -> None:
    """Check that the public tenant, if there is one, is sure of a block for each of the prefixes.

    Raises:
        ConfigError: Its floor is too small.
    """
    config, origins = resolved.config, Origins(resolved.provenance)
    needed = public.blocks * len(config.groups)
    for at, tenant in enumerate(config.tenants):
        floor = tenant.floor
        blocks = int(floor * resolved.capacity_blocks) if isinstance(floor, float) else floor
        if tenant.public and blocks < needed:
            path = config.prefix.public
            reason = f"is {blocks} blocks: the prefixes of {path} have {needed}"
            raise origins.error(join(join("tenants", at), "floor"), floor, reason)


def tiers_of(resolved: Resolved) -> list[str]:
    """The names of the tiers that are on."""
    return [tier.config.name for tier in resolved.tiers]


def _tell(resolved: Resolved) -> None:
    """Say in the log what starts: in words, and as fields that a formatter may write."""
    cache = resolved.config.cache
    fields = {
        "eviction": resolved.eviction.name,
        "eviction_options": dict(resolved.eviction.values),
        "admission": resolved.admission.name,
        "prefix": resolved.prefix.name,
        "index": cache.index,
        "block_size": cache.block_size,
        "blocks": resolved.capacity_blocks,
        "tiers": tiers_of(resolved),
    }
    words = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
    _log.info("a manager starts: %s", words, extra={"kvframe": fields})


def resolved_of(config: Config | Resolved | None, settings: dict[str, Any]) -> Resolved:
    """The given configuration, resolved; without one, that which the keywords describe."""
    if not isinstance(config, Config | Resolved | None):
        raise UsageError(
            f"config is a {type(config).__name__}: must be a Config; a file's name goes to "
            "KVCacheManager.from_toml"
        )
    if settings and config is not None:
        raise UsageError(f"{', '.join(settings)}: not beside a configuration, which has them")
    if isinstance(config, Resolved):
        return config
    return (config or (Config.of(**settings) if settings else Config())).resolve()
