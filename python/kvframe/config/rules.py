"""What the types alone cannot say: rules that tie one key to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kvframe.config.environment import EnvText
from kvframe.config.origins import Origins, join
from kvframe.config.schema import MAX_GROUPS
from kvframe.config.values import build
from kvframe.descriptors import (
    AdmissionPolicy,
    Descriptor,
    EvictionPolicy,
    Kind,
    PrefixMatcher,
)
from kvframe.errors import PluginError
from kvframe.registry import Loaded, Registry
from kvframe.spelling import did_you_mean

if TYPE_CHECKING:
    from kvframe.config.tree import Config

D = TypeVar("D", bound=Descriptor)

_MAX_UNIT = 2**31

_SECTIONS: dict[Kind, str] = {"eviction": "policy", "admission": "admission", "prefix": "prefix"}

_KEYS: dict[str, tuple[str, ...]] = {
    "window": ("sliding_window", "sink_window"),
    "chunk": ("chunked",),
    "sink": ("sink_window",),
}
"""Keys that some kinds of group need, and no others have."""


@dataclass(frozen=True)
class Checked:
    """What `check_options` finds.

    Attributes:
        chosen: The chosen policy's options; None if it takes none.
        tables: Every table, those checked with their defaults filled in.
        unchecked: Names of the tables that stay unchecked.
    """

    chosen: msgspec.Struct | None
    tables: dict[str, dict[str, Any]]
    unchecked: tuple[str, ...]


def check_groups(config: Config, origins: Origins) -> None:
    """There are 1 to 16 groups, names are unique, and each kind has its own keys and no others.

    Raises:
        ConfigError: One of these does not hold.
    """
    count = len(config.groups)
    if not 1 <= count <= MAX_GROUPS:
        raise origins.missing("groups", f"{count} groups; must be between 1 and {MAX_GROUPS}")
    names = [group.name for group in config.groups]
    for index, group in enumerate(config.groups):
        here = join("groups", index)
        if group.name in names[:index]:
            raise origins.error(join(here, "name"), group.name, "is another group's name too")
        for key, kinds in _KEYS.items():
            value = getattr(group, key)
            if group.kind in kinds and value is None:
                raise origins.missing(
                    join(here, key), f"missing; a {group.kind} group needs it, in tokens"
                )
            if group.kind not in kinds and value is not None:
                raise origins.error(join(here, key), value, f"goes with {_named(kinds)} alone")
        if group.interval is not None and group.kind in ("full", "cross"):
            raise origins.error(
                join(here, "interval"), group.interval, f"a {group.kind} group gives up no blocks"
            )
        if group.lag and group.kind in ("state", "cross"):
            raise origins.error(
                join(here, "lag"), group.lag, f"a {group.kind} group does not attend to tokens"
            )
    if all(group.kind == "cross" for group in config.groups):
        raise origins.missing("groups", "some group has to attend to the sequence's own tokens")
    _check_units(config, origins)
    _check_index(config, origins)
    _check_rows(config, origins)


def _named(kinds: tuple[str, ...]) -> str:
    return " or ".join(f'kind = "{kind}"' for kind in kinds)


def reusable_unit(config: Config) -> int:
    """Tokens that the length of a prefix hit is a multiple of."""
    sizes = [group.block_size for group in config.groups if group.kind != "cross"]
    return lcm(config.cache.block_size, *[size for size in sizes if size is not None])


def _check_units(config: Config, origins: Origins) -> None:
    unit = config.cache.block_size
    for index, group in enumerate(config.groups):
        here = join("groups", index)
        if group.block_size is not None and group.block_size % unit:
            raise origins.error(
                join(here, "block_size"),
                group.block_size,
                f"must be a multiple of cache.block_size = {unit}",
            )
    shared = reusable_unit(config)
    steps = shared
    for index, group in enumerate(config.groups):
        steps = lcm(steps, group.interval or 1)
        if max(shared, steps) > _MAX_UNIT:
            raise origins.error(
                join("groups", index),
                group.name,
                f"sizes and intervals have a common multiple above {_MAX_UNIT} tokens",
            )
        if group.interval is not None and group.interval % shared:
            raise origins.error(
                join(join("groups", index), "interval"),
                group.interval,
                f"must be 0 or a multiple of {shared} tokens, the unit all groups can serve",
            )


def _check_index(config: Config, origins: Origins) -> None:
    for group in config.groups:
        plain = group.kind == "full" and group.block_size in (None, config.cache.block_size)
        if config.cache.index == "radix" and (not plain or group.lag):
            raise origins.error(
                "cache.index",
                "radix",
                f"serves full attention in blocks of cache.block_size, and {group.name!r} is none",
            )


def _check_rows(config: Config, origins: Origins) -> None:
    unit = config.cache.block_size
    for key in ("remap_duplicates", "partial_hits"):
        if not getattr(config.cache, key):
            continue
        here = join("cache", key)
        if config.cache.index == "radix":
            if key == "partial_hits":
                continue
            raise origins.error(here, True, 'needs index = "hash": the radix index has no keys')
        for group in config.groups:
            plain = group.kind in ("full", "sliding_window") and not group.lag
            if not plain or group.block_size not in (None, unit):
                raise origins.error(
                    here,
                    True,
                    "needs groups of full attention or sliding windows, in blocks of "
                    f"cache.block_size = {unit} and without lag; {group.name!r} is none",
                )


def check_pressure(config: Config, blocks: int, origins: Origins) -> None:
    """The marks rise, and something is left beside what is kept back.

    Raises:
        ConfigError: One of these does not hold.
    """
    marks = config.pressure
    for name, value, least, below in (
        ("high", marks.high, marks.low, "low"),
        ("critical", marks.critical, marks.high, "high"),
    ):
        if value <= least:
            raise origins.error(f"pressure.{name}", value, f"must be above {below} = {least}")
    usable = blocks - config.cache.null_block
    if marks.reserve >= usable:
        raise origins.error(
            "pressure.reserve", marks.reserve, f"must be below the {usable} blocks of the pool"
        )


def find(look_up: Callable[[str], Loaded[D]], name: str, path: str, origins: Origins) -> Loaded[D]:
    """What a registry finds for the ``name`` that stands at the key ``path``.

    Raises:
        PluginError: It is not found, blocked or broken; the message says where the name stands.
    """
    try:
        return look_up(name)
    except PluginError as error:
        message = str(origins.error(path, name, str(error)))
        raise PluginError(message) from (error.__cause__ or error)


def find_eviction(config: Config, registry: Registry, origins: Origins) -> Loaded[EvictionPolicy]:
    """The eviction policy that the configuration names.

    Raises:
        PluginError: It is not found, blocked or broken.
        ConfigError: It runs in a replay alone.
    """
    path, name = "policy.eviction", config.policy.eviction
    loaded = find(registry.eviction, name, path, origins)
    if loaded.descriptor.replay_only:
        raise origins.error(
            path, name, "needs to know the future; only kvframe bench can run it, on a trace"
        )
    return loaded


def find_admission(config: Config, registry: Registry, origins: Origins) -> Loaded[AdmissionPolicy]:
    """The admission policy that the configuration names.

    Raises:
        PluginError: It is not found, blocked or broken.
    """
    return find(registry.admission, config.admission.policy, "admission.policy", origins)


def find_prefix(config: Config, registry: Registry, origins: Origins) -> Loaded[PrefixMatcher]:
    """The prefix matcher that the configuration names, or the index.

    Raises:
        PluginError: It is not found, blocked or broken.
        ConfigError: It does not go with the rest of the configuration.
    """
    name = config.prefix.policy
    if name is None:
        return registry.prefix(config.cache.index)
    loaded = find(registry.prefix, name, "prefix.policy", origins)
    if loaded.descriptor.way == "builtin" and name != config.cache.index:
        raise origins.error("prefix.policy", name, f"cache.index = {config.cache.index!r} differs")
    if loaded.descriptor.way != "builtin" and config.cache.partial_hits:
        raise origins.error(
            "cache.partial_hits", True, "a prefix matcher in Python takes whole blocks only"
        )
    return loaded


def check_options(
    section: str,
    tables: dict[str, dict[str, Any]],
    chosen: Loaded[Any],
    registry: Registry,
    origins: Origins,
) -> Checked:
    """Check the options of a ``section`` against the schemas of the policies it names.

    The table of an installed policy that is not the chosen one stays unchecked, for to check it
    would import its package. So does that of one not installed, unless its name looks misspelt.

    Raises:
        ConfigError: An option is unknown or wrong, or a table has no policy.
    """
    own, kind = chosen.descriptor.name, chosen.descriptor.kind
    candidates = registry.candidates(kind)
    known = {candidate.name: candidate for candidate in candidates}
    options: msgspec.Struct | None = None
    filled: dict[str, dict[str, Any]] = {}
    unchecked: list[str] = []
    for name in [*tables, *({own} - tables.keys())]:
        table = tables.get(name, {})
        path = join(f"{section}.options", name)
        if name == own:
            options = build_options(chosen.descriptor, table, path, origins)
            values = msgspec.to_builtins(options) if options is not None else {}
        elif name in known and known[name].kind is not None:
            built = build_options(_descriptor(registry, kind, name), table, path, origins)
            values = msgspec.to_builtins(built) if built is not None else {}
        elif name not in known and (home := _home(registry, name)):
            raise origins.error(path, table, f"no {kind} policy of that name; it goes in {home}")
        elif name not in known and (hint := did_you_mean(name, known)):
            raise origins.error(path, table, f"no policy of that name{hint}")
        else:
            unchecked.append(name)
            values = {
                key: value.guess() if isinstance(value, EnvText) else value
                for key, value in table.items()
            }
        if values or name in tables:
            filled[name] = values
    return Checked(options, filled, tuple(unchecked))


def _home(registry: Registry, name: str) -> str:
    """Where the options of a policy go that is known without an import; empty if none is."""
    for kind, section in _SECTIONS.items():
        if any(found.kind and found.name == name for found in registry.candidates(kind)):
            return f"{section}.options.{name}"
    return ""


def _descriptor(registry: Registry, kind: Kind, name: str) -> Descriptor:
    if kind == "eviction":
        return registry.eviction(name).descriptor
    if kind == "admission":
        return registry.admission(name).descriptor
    return registry.prefix(name).descriptor


def build_options(
    descriptor: Descriptor, table: dict[str, Any], path: str, origins: Origins
) -> msgspec.Struct | None:
    """The options of a table by the schema of a plugin; None if it takes none.

    Raises:
        ConfigError: One is unknown or wrong.
    """
    if descriptor.options is not None:
        return build(descriptor.options, table, path, origins)
    for key in table:
        raise origins.error(join(path, key), table[key], f"{descriptor.name} takes no options")
    return None
