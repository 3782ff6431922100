"""What the types alone cannot say: rules that tie one key to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvframe.config.environment import EnvText
from kvframe.config.origins import Origins, join
from kvframe.config.schema import MAX_GROUPS
from kvframe.config.values import build
from kvframe.descriptors import EvictionPolicy
from kvframe.errors import PluginError
from kvframe.registry import Loaded, Registry
from kvframe.spelling import did_you_mean

if TYPE_CHECKING:
    from kvframe.config.tree import Config

_OPTIONS = "policy.options"


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
    """There are 1 to 16 groups, names are unique, and a window goes with a sliding window.

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
        if group.kind == "sliding_window" and group.window is None:
            raise origins.missing(
                join(here, "window"), "missing; a sliding_window group needs it, in tokens"
            )
        if group.kind != "sliding_window" and group.window is not None:
            raise origins.error(
                join(here, "window"), group.window, 'goes with kind = "sliding_window" alone'
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


def find_eviction(config: Config, registry: Registry, origins: Origins) -> Loaded[EvictionPolicy]:
    """The eviction policy that the configuration names.

    Raises:
        PluginError: It is not found, blocked or broken.
        ConfigError: It runs in a replay alone.
    """
    path, name = "policy.eviction", config.policy.eviction
    try:
        loaded = registry.eviction(name)
    except PluginError as error:
        message = str(origins.error(path, name, str(error)))
        raise PluginError(message) from (error.__cause__ or error)
    if loaded.descriptor.replay_only:
        raise origins.error(
            path, name, "needs to know the future; only kvframe bench can run it, on a trace"
        )
    return loaded


def check_options(
    tables: dict[str, dict[str, Any]],
    chosen: Loaded[EvictionPolicy],
    registry: Registry,
    origins: Origins,
) -> Checked:
    """Check ``[policy.options]`` against the schemas of the policies it names.

    The table of an installed policy that is not the chosen one stays unchecked, for to check it
    would import its package. So does that of one not installed, unless its name looks misspelt.

    Raises:
        ConfigError: An option is unknown or wrong, or a table has no policy.
    """
    own = chosen.descriptor.name
    candidates = registry.candidates("eviction")
    known = {candidate.name: candidate for candidate in candidates}
    options: msgspec.Struct | None = None
    filled: dict[str, dict[str, Any]] = {}
    unchecked: list[str] = []
    for name in [*tables, *({own} - tables.keys())]:
        table = tables.get(name, {})
        path = join(_OPTIONS, name)
        if name == own:
            options = _build(chosen.descriptor, table, path, origins)
            values = msgspec.to_builtins(options) if options is not None else {}
        elif name in known and known[name].kind is not None:
            built = _build(registry.eviction(name).descriptor, table, path, origins)
            values = msgspec.to_builtins(built) if built is not None else {}
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


def _build(
    descriptor: EvictionPolicy, table: dict[str, Any], path: str, origins: Origins
) -> msgspec.Struct | None:
    if descriptor.options is not None:
        return build(descriptor.options, table, path, origins)
    for key in table:
        raise origins.error(join(path, key), table[key], f"{descriptor.name} takes no options")
    return None
