"""The core of a manager, made from a configuration."""

from __future__ import annotations

from kvframe import _core
from kvframe.config import Resolved
from kvframe.config.rules import core_table
from kvframe.drivers import admission, eviction, prefix
from kvframe.drivers.asker import Terms


def core_of(
    resolved: Resolved, gate: admission.AdmissionDriver | None, matcher: prefix.PrefixDriver | None
) -> _core.Manager:
    """The core's manager, with what it calls of policies outside of it."""
    config, chosen = resolved.config, resolved.eviction
    terms = Terms.of(config.eviction, chosen.options, config.cache.block_size)
    return _core.Manager(
        core_table(config, resolved.capacity_blocks),
        policy=eviction.driver(chosen.loaded, terms) or chosen.name,
        policy_options=chosen.values,
        admission=gate or resolved.admission.name,
        admission_options=resolved.admission.values,
        matched=matcher is not None,
        mirrored=matcher is not None and matcher.is_index,
    )
