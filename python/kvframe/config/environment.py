"""Environment variables that set keys: ``KVFRAME_CACHE__BLOCK_SIZE=32`` sets cache.block_size."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import inspect

from kvframe.config.limits import MAX_DEPTH, MAX_KEY, MAX_TEXT, check_text
from kvframe.config.origins import ENV
from kvframe.config.text import cut
from kvframe.errors import ConfigError
from kvframe.spelling import plain

_PREFIX = "KVFRAME_"
_STEP = "__"


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
        ConfigError: One names a key with too few underscores, or with nothing between them.
    """
    for name, path in variables(env).items():
        if "" in path:
            raise ConfigError(
                f"{cut(name)}: names no key; KVFRAME_CACHE__BLOCK_SIZE is how one is named"
            )
    meant = {_PREFIX + key.upper().replace(".", "_"): key for key in keys}
    for name in sorted(meant.keys() & env.keys()):
        right = _PREFIX + meant[name].upper().replace(".", _STEP)
        raise ConfigError(f"{name}: names no key; did you mean {right}?")


def layer(env: Mapping[str, str], policies: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The keys that the environment sets.

    Args:
        env: The environment.
        policies: Known names of policies. A variable cannot hold ``-``, so OPT_FORCED means
            ``opt-forced`` if there is a policy of that name.

    Returns:
        The nested tables, whose leaves are `EnvText`, and the origin of each key path.
    """
    spelt = {plain(name): name for name in policies}
    tables: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, path in variables(env).items():
        if path[0] in ("policy", "admission", "prefix") and path[1] == "options" and len(path) > 2:
            path[2] = spelt.get(path[2], path[2])
        _check(name, path, env[name])
        table = tables
        for part in path[:-1]:
            if not isinstance(table.get(part), dict):
                table[part] = {}
            table = table[part]
        table[path[-1]] = EnvText(env[name])
        for depth in range(1, len(path) + 1):
            origins[".".join(path[:depth])] = ENV + name
    return tables, origins


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
