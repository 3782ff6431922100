"""What the types alone cannot say: rules that tie one key to another."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm
from typing import TYPE_CHECKING

from kvframe.config.origins import Origins, join
from kvframe.config.schema import MAX_GROUPS, GroupConfig
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from kvframe.config.tree import Config

_MAX_UNIT = 2**31

_KEYS: dict[str, tuple[str, ...]] = {
    "window": ("sliding_window", "sink_window"),
    "chunk": ("chunked",),
    "sink": ("sink_window",),
}
"""Keys that some kinds of group need, and no others have."""


def check_groups(config: Config, origins: Origins) -> Iterator[ConfigError]:
    """There are 1 to 16 groups, names are unique, and each kind has its own keys and no others."""
    count = len(config.groups)
    if not 1 <= count <= MAX_GROUPS:
        yield origins.missing("groups", f"{count} groups; must be between 1 and {MAX_GROUPS}")
        return
    names = [group.name for group in config.groups]
    wrong = []
    for index, group in enumerate(config.groups):
        here = join("groups", index)
        if group.name in names[:index]:
            wrong.append(
                origins.error(join(here, "name"), group.name, "is another group's name too")
            )
        wrong += _check_kind(group, here, origins)
    if all(group.kind == "cross" for group in config.groups):
        wrong.append(
            origins.missing("groups", "some group has to attend to the sequence's own tokens")
        )
    yield from wrong or _check_units(config, origins)


def _check_kind(group: GroupConfig, here: str, origins: Origins) -> Iterator[ConfigError]:
    for key, kinds in _KEYS.items():
        value = getattr(group, key)
        if group.kind in kinds and value is None:
            yield origins.missing(
                join(here, key), f"missing; a {group.kind} group needs it, in tokens"
            )
        if group.kind not in kinds and value is not None:
            yield origins.error(join(here, key), value, f"goes with {_named(kinds)} alone")
    if group.interval is not None and group.kind in ("full", "cross"):
        yield origins.error(
            join(here, "interval"), group.interval, f"a {group.kind} group gives up no blocks"
        )
    if group.lag and group.kind in ("state", "cross"):
        yield origins.error(
            join(here, "lag"), group.lag, f"a {group.kind} group does not attend to tokens"
        )


def _named(kinds: tuple[str, ...]) -> str:
    return " or ".join(f'kind = "{kind}"' for kind in kinds)


def reusable_unit(config: Config) -> int:
    """Tokens that the length of a prefix hit is a multiple of."""
    sizes = [group.block_size for group in config.groups if group.kind != "cross"]
    return lcm(config.cache.block_size, *[size for size in sizes if size is not None])


def _check_units(config: Config, origins: Origins) -> Iterator[ConfigError]:
    unit, wrong = config.cache.block_size, False
    for index, group in enumerate(config.groups):
        if group.block_size is not None and group.block_size % unit:
            wrong = True
            yield origins.error(
                join(join("groups", index), "block_size"),
                group.block_size,
                f"must be a multiple of cache.block_size = {unit}",
            )
    if not wrong:
        yield from _check_intervals(config, origins)
    yield from _check_index(config, origins)
    yield from _check_rows(config, origins)


def _check_intervals(config: Config, origins: Origins) -> Iterator[ConfigError]:
    shared = reusable_unit(config)
    steps = shared
    for index, group in enumerate(config.groups):
        steps = lcm(steps, group.interval or 1)
        if max(shared, steps) > _MAX_UNIT:
            yield origins.error(
                join("groups", index),
                group.name,
                f"sizes and intervals have a common multiple above {_MAX_UNIT} tokens",
            )
            return
        if group.interval is not None and group.interval % shared:
            yield origins.error(
                join(join("groups", index), "interval"),
                group.interval,
                f"must be 0 or a multiple of {shared} tokens, the unit all groups can serve",
            )


def _check_index(config: Config, origins: Origins) -> Iterator[ConfigError]:
    for group in config.groups:
        plain = group.kind == "full" and group.block_size in (None, config.cache.block_size)
        if config.cache.index == "radix" and (not plain or group.lag):
            yield origins.error(
                "cache.index",
                "radix",
                f"serves full attention in blocks of cache.block_size, and {group.name!r} is none",
            )
            return


def _check_rows(config: Config, origins: Origins) -> Iterator[ConfigError]:
    unit = config.cache.block_size
    for key in ("remap_duplicates", "partial_hits"):
        if not getattr(config.cache, key):
            continue
        here = join("cache", key)
        if config.cache.index == "radix":
            if key == "remap_duplicates":
                reason = 'needs index = "hash": the radix index has no keys'
                yield origins.error(here, True, reason)
            continue
        for group in config.groups:
            plain = group.kind in ("full", "sliding_window") and not group.lag
            if not plain or group.block_size not in (None, unit):
                yield origins.error(
                    here,
                    True,
                    "needs groups of full attention or sliding windows, in blocks of "
                    f"cache.block_size = {unit} and without lag; {group.name!r} is none",
                )
                break


def check_marks(config: Config, origins: Origins) -> Iterator[ConfigError]:
    """The marks of pressure rise."""
    marks = config.pressure
    for name, value, least, below in (
        ("high", marks.high, marks.low, "low"),
        ("critical", marks.critical, marks.high, "high"),
    ):
        if value <= least:
            yield origins.error(f"pressure.{name}", value, f"must be above {below} = {least}")


def check_reserve(config: Config, blocks: int, origins: Origins) -> Iterator[ConfigError]:
    """Something of the pool is left beside what is kept back."""
    usable = blocks - config.cache.null_block
    reserve = config.pressure.reserve
    if reserve >= usable:
        reason = f"must be below the {usable} blocks of the pool"
        yield origins.error("pressure.reserve", reserve, reason)


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
