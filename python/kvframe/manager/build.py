"""The core of a manager, made from a configuration."""

from __future__ import annotations

from typing import Any

from kvframe import _core
from kvframe.config import Resolved
from kvframe.config.schema import GroupConfig
from kvframe.drivers import admission, eviction, prefix
from kvframe.drivers.asker import Terms
from kvframe.request import name_bytes


def _group(group: GroupConfig) -> dict[str, Any]:
    keys = ("kind", "window", "chunk", "sink", "block_size", "interval", "lag")
    return {key: getattr(group, key) for key in keys}


def core_of(
    resolved: Resolved, gate: admission.AdmissionDriver | None, matcher: prefix.PrefixDriver | None
) -> _core.Manager:
    """The core's manager, with what it calls of policies outside of it."""
    config = resolved.config
    cache, observe = config.cache, config.observe
    pressure, retention = config.pressure, config.retention
    terms = Terms.of(config.policy, resolved.options, cache.block_size)
    return _core.Manager(
        blocks=resolved.capacity_blocks,
        block_size=cache.block_size,
        policy=eviction.driver(resolved.policy, terms) or resolved.policy.descriptor.name,
        policy_options=resolved.policy_options,
        hash=cache.hash,
        index=cache.index,
        groups=[_group(group) for group in config.groups],
        prefix_caching=cache.prefix_caching,
        null_block=cache.null_block,
        fingerprint=name_bytes("cache.fingerprint", cache.fingerprint),
        event_log=cache.event_log,
        reserve=pressure.reserve,
        pin_cap=retention.pin_cap,
        sessions=retention.sessions,
        statistics=observe.statistics,
        ghosts=observe.ghosts,
        sample=observe.sample,
        watermarks=(pressure.low, pressure.high, pressure.critical),
        remap_duplicates=cache.remap_duplicates,
        partial_hits=cache.partial_hits,
        admission=gate or resolved.admission.descriptor.name,
        admission_options=resolved.admission_values,
        matched=matcher is not None,
        mirrored=matcher is not None and matcher.is_index,
    )
