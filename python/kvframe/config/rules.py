"""Rules that tie keys together: those that the core cannot check. It checks most others itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import lcm
from typing import TYPE_CHECKING, Any

import msgspec

from kvframe._core import check_options
from kvframe.config.origins import Origins, join, parent
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from kvframe.config.tree import Config

_SECTIONS = ("cache", "pressure", "retention", "observe")
"""Sections whose keys are options of the core, all of them."""

_GROUP = ("kind", "window", "chunk", "sink", "block_size", "interval", "lag")
"""Keys of a group that the core knows; the others turn bytes into blocks."""


def core_table(config: Config, blocks: int) -> dict[str, Any]:
    """The table of options by key that the core checks, and from which it is built."""
    table = {
        join(section, key): value
        for section in _SECTIONS
        for key, value in msgspec.structs.asdict(getattr(config, section)).items()
    }
    groups = [{key: getattr(group, key) for key in _GROUP} for group in config.groups]
    tenants = [msgspec.structs.asdict(one) for one in config.tenants]
    return {**table, "cache.capacity": blocks, "groups": groups, "tenants": tenants}


def check_core(
    config: Config, well: set[str], blocks: int | None, origins: Origins
) -> Iterator[ConfigError]:
    """What the core's own rules forbid.

    Args:
        config: Every value.
        well: The sections that are valid in themselves; the rules check no others.
        blocks: Blocks of the pool; None if these are wrong.
        origins: Where each value came from.
    """
    if not config.groups:
        yield origins.missing("groups", "0 groups; must be between 1 and 16")
        return
    # A pool of unknown size counts as the largest possible, so that no rule finds it too small.
    table = core_table(config, blocks if blocks is not None else 2**32 - 1)
    if "cache" not in well:
        well = well - {"groups"}
    known = {key: value for key, value in table.items() if key.partition(".")[0] in well}
    given = config.plain()
    for key, has_value, rule in check_options(known):
        # The core numbers the groups, while messages name them.
        limit = re.sub(r"groups\[(\d+)\]", lambda at: repr(config.groups[int(at[1])].name), rule)
        if has_value:
            yield origins.error(key, _value(given, key), limit)
        else:
            yield origins.missing(key, limit)


def _value(tables: Any, path: str) -> object:
    """What stands at ``path``: ``groups[0].window``."""
    if not path:
        return tables
    above: Any = _value(tables, parent(path))
    last = path[len(parent(path)) :].strip(".[]")
    return above[int(last)] if isinstance(above, list) else above.get(last)


def check_names(config: Config, origins: Origins) -> Iterator[ConfigError]:
    """Yield an error for each name that two groups share."""
    names = [group.name for group in config.groups]
    for index, group in enumerate(config.groups):
        if group.name in names[:index]:
            here = join(join("groups", index), "name")
            yield origins.error(here, group.name, "is another group's name too")


def reusable_unit(config: Config) -> int:
    """Tokens that the length of a prefix hit is a multiple of."""
    sizes = [group.block_size for group in config.groups if group.kind != "cross"]
    return lcm(config.cache.block_size, *[size for size in sizes if size is not None])


def check_public(config: Config, origins: Origins) -> Iterator[ConfigError]:
    """Public prefixes go with one tenant that has their blocks, where there are tenants."""
    public = [at for at, tenant in enumerate(config.tenants) if tenant.public]
    if config.prefix.public is not None and config.tenants and not public:
        reason = "needs a tenant with public = true beside others: its floor is for their blocks"
        yield origins.error("prefix.public", config.prefix.public, reason)
    for place, at in enumerate(public):
        here = join("tenants", at)
        if config.prefix.public is None:
            yield origins.error(join(here, "public"), True, "prefix.public names no prefixes")
        if place:
            yield origins.error(join(here, "public"), True, "is there twice")
        if config.tenants[at].quota is not None:
            reason = "its floor is its quota too: leave it out"
            yield origins.error(join(here, "quota"), config.tenants[at].quota, reason)


def check_prefix(config: Config, name: str, *, is_builtin: bool, origins: Origins) -> None:
    """The prefix matcher goes with the index, and with hits inside blocks.

    Raises:
        ConfigError: It does not.
    """
    if is_builtin and name != config.cache.index:
        raise origins.error("prefix.policy", name, f"cache.index = {config.cache.index!r} differs")
    if not is_builtin and config.cache.partial_hits:
        raise origins.error(
            "cache.partial_hits", True, "a prefix matcher in Python takes whole blocks only"
        )
