"""Environment variables that set keys: ``KVFRAME_CACHE__BLOCK_SIZE=32`` sets cache.block_size."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import inspect

from kvframe.config.limits import MAX_DEPTH, MAX_KEY, MAX_TEXT, check_text
from kvframe.config.origins import ENV, join
from kvframe.config.text import cut
from kvframe.errors import ConfigError
from kvframe.spelling import nearest

_PREFIX = "KVFRAME_"
_STEP = "__"


class Items(dict[int, Any]):
    """Items of a list by their numbers, as ``KVFRAME_TIERS__0__CAPACITY`` names one."""


class EnvText(str):
    """The text of a variable; what it means depends on the type of the key it sets."""

    __slots__ = ()

    def as_one_of(self, kinds: Sequence[inspect.Type]) -> object:
        """The value this text stands for where one of ``kinds`` is expected.

        A string is taken as it stands, a list may be written ``a,b``, and all else as in TOML.
        """
        if all(_is_text(kind) for kind in kinds):
            return str(self)
        is_list = any(isinstance(kind, inspect.ListType) for kind in kinds)
        if is_list and not self.startswith("["):
            return [part.strip() for part in self.split(",") if part.strip()]
        return self.guess()

    def guess(self) -> object:
        """The TOML value this text spells, or else the text itself."""
        if check_text(self) is not None:
            return str(self)
        try:
            table = tomllib.loads(f"value = {self}")
        except (ValueError, RecursionError):  # a number or a nesting beyond Python's limits, too
            return str(self)
        return table["value"] if len(table) == 1 else str(self)


def variables(env: Mapping[str, str]) -> dict[str, list[str]]:
    """The variables that set keys, each with its key path in lower case."""
    return {
        name: name.removeprefix(_PREFIX).lower().split(_STEP)
        for name in sorted(env, key=str)
        if isinstance(name, str)
        and name.startswith(_PREFIX)
        and _STEP in name.removeprefix(_PREFIX)
    }


def check_names(env: Mapping[str, str], keys: Iterable[str]) -> None:
    """Refuse names that set nothing although they were meant to.

    Args:
        env: The environment.
        keys: The paths that a variable can set, as ``cache.block_size``.

    Raises:
        ConfigError: One names a key with too few underscores, or with nothing between them, or
            without its section.
    """
    for name, path in variables(env).items():
        if "" in path:
            raise ConfigError(
                f"{cut(name)}: names no key; KVFRAME_CACHE__BLOCK_SIZE is how one is named"
            )
    meant: dict[str, list[str]] = {}
    for key in keys:
        right = _PREFIX + key.upper().replace(".", _STEP)
        for part in (key.replace(".", "_"), key.rpartition(".")[2]):
            meant.setdefault(_PREFIX + part.upper(), []).append(right)
    others = [name for name in env if isinstance(name, str) and name.startswith(_PREFIX)]
    for name in sorted(others):
        if _STEP in name.removeprefix(_PREFIX):
            continue
        near = nearest(
            name.removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in meant], 0.9
        )
        if near is not None:
            right = " or ".join(meant[_PREFIX + near])
            raise ConfigError(f"{cut(name)}: names no key; did you mean {right}?")


def layer(env: Mapping[str, str], lists: Container[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The keys that the environment sets.

    Args:
        env: The environment.
        lists: The sections that are arrays of tables: their items go by number.

    Returns:
        The nested tables, whose leaves are `EnvText`, and the origin of each key path.

    Raises:
        ConfigError: A name or a text is too long, or an item of a list is not named by its number.
    """
    tables: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, path in variables(env).items():
        _check(name, path, env[name])
        parts: list[str | int] = list(path)
        if path[0] in lists:
            parts[1] = _number(name, path[1])
        here, table = "", cast("dict[str | int, Any]", tables)
        for part, after in zip(parts, [*parts[1:], None], strict=True):
            here = join(here, part)
            origins[here] = ENV + name
            if after is None:
                table[part] = EnvText(env[name])
            else:
                if not isinstance(table.get(part), dict):
                    table[part] = Items() if isinstance(after, int) else {}
                table = table[part]
    return tables, origins


def _number(name: str, part: str) -> int:
    if not (part.isdecimal() and part.isascii() and len(part) < 6):
        example = "KVFRAME_TIERS__0__CAPACITY is how one is named"
        raise ConfigError(f"{cut(name)}: an item goes by its number, from 0: {example}")
    return int(part)


def _check(name: str, path: Sequence[str], text: object) -> None:
    if not isinstance(text, str):
        raise ConfigError(f"{cut(name)}: is a {type(text).__name__}: must be a text")
    if len(text) > MAX_TEXT:
        raise ConfigError(f"{cut(name)}: {len(text)} characters: must be at most {MAX_TEXT}")
    if len(path) > MAX_DEPTH:
        raise ConfigError(f"{cut(name)}: {len(path)} parts: must be at most {MAX_DEPTH}")
    if max(map(len, path)) > MAX_KEY:
        raise ConfigError(f"{cut(name)}: a part is longer than {MAX_KEY} characters")


def _is_text(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.LiteralType):
        return all(isinstance(choice, str) for choice in kind.values)
    return isinstance(kind, inspect.StrType | inspect.NoneType)
