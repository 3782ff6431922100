"""The layers of a configuration, later over earlier: file, environment, keywords."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvframe.config.environment import Items
from kvframe.config.limits import check_text, check_tree
from kvframe.config.lines import key_lines
from kvframe.config.origins import ENV, Origins, join, parent
from kvframe.config.text import cut
from kvframe.errors import ConfigError
from kvframe.files import CONFIG_BYTES, FileError, read_regular

FILE_NAME = "kvframe.toml"
PYPROJECT = "pyproject.toml"
_TOOL = "tool.kvframe"

_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")
_UNQUOTED = re.compile(r"(?:=|\[|,)[ \t]*([^\s\[\]{},=\"'#]*[A-Za-z][^\s\[\]{},\"'#]*)")
"""What stands where a value begins, and is a word."""


def find(directory: Path) -> Path | None:
    """The configuration that lies in ``directory``: kvframe.toml, else a pyproject.toml's table."""
    own = directory / FILE_NAME
    if own.exists():  # a pipe of that name is refused, not passed over
        return own
    shared = directory / PYPROJECT
    if shared.exists() and _tool_table(_parse(_read(shared), shared)) is not None:
        return shared
    return None


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Callable[[str], str]]:
    """The tables of a file, and what tells the origin (``FILE:LINE``) of a key path.

    A file named pyproject.toml gives its ``[tool.kvframe]``; any other is taken whole.

    Raises:
        ConfigError: The file cannot be read, is no regular file, is not UTF-8 or not TOML, passes a
            limit of `kvframe.config.limits`, or is a pyproject.toml without that table.
    """
    file = Path(path)
    text = _read(file)
    data = _parse(text, file)
    check_tree(data, f"{file}: ")
    root = ""
    if file.name == PYPROJECT:
        root = _TOOL
        table = _tool_table(data)
        if table is None:
            raise ConfigError(f"{file}: has no [{_TOOL}] table")
        data = table
    lines = key_lines(text, root)

    def origin(key: str) -> str:
        # A key inside an inline table has the line of the nearest key around it.
        while key and key not in lines:
            key = parent(key)
        return f"{file}:{lines[key]}" if key in lines else str(file)

    return data, origin


def merge(
    into: dict[str, Any],
    tables: Mapping[str, Any],
    origins: Origins,
    origin: Callable[[str], str],
    path: str = "",
) -> None:
    """Lay ``tables`` over ``into``: tables are merged, all else is replaced. Notes the origins.

    Raises:
        ConfigError: An item of an array is numbered past its end.
    """
    for name, value in tables.items():
        here = join(path, str(name))
        if isinstance(value, Items):
            _merge_items(into.setdefault(name, []), value, origins, origin, here)
        elif isinstance(value, Mapping):
            if not isinstance(into.get(name), dict):
                into[name] = {}
                origins.set(here, origin(here))
            merge(into[name], value, origins, origin, here)
        else:
            origins.set(here, origin(here))
            into[name] = _copied(value, origins, origin, here)


def _copied(value: Any, origins: Origins, origin: Callable[[str], str], path: str) -> Any:
    """The value; the tables in an array are copied, for a later layer may change them."""
    if not isinstance(value, list | tuple):
        return value
    items = []
    for index, item in enumerate(value):
        here = join(path, index)
        origins.set(here, origin(here))
        if isinstance(item, Mapping):
            table: dict[str, Any] = {}
            merge(table, item, origins, origin, here)
            item = table
        items.append(item)
    return items


def _merge_items(
    into: object, items: Items, origins: Origins, origin: Callable[[str], str], path: str
) -> None:
    if not isinstance(into, list):  # `build` refuses it
        return
    for index, item in sorted(items.items()):
        here = join(path, index)
        if index > len(into):
            told = f"there is no item before it: {path} has {len(into)}, numbered from 0"
            raise ConfigError(f"{origin(here).removeprefix(ENV)}: {here}: {told}")
        if not isinstance(item, Mapping):
            into[index : index + 1] = [item]
            origins.set(here, origin(here))
            continue
        if index == len(into) or not isinstance(into[index], dict):
            into[index : index + 1] = [{}]
            origins.set(here, origin(here))
        merge(into[index], item, origins, origin, here)


def _read(file: Path) -> str:
    try:
        data = read_regular(file, CONFIG_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except FileError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{str(file)!r}: no file has such a name: {error}") from error
    try:
        return data.decode("utf-8").removeprefix("\ufeff")  # some editors put it first
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: is not UTF-8 (byte {error.start})") from error


def _parse(text: str, file: Path) -> dict[str, Any]:
    if (wrong := check_text(text)) is not None:
        raise ConfigError(f"{file}:{wrong[1]}: {wrong[0]}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, line = _place(str(error), text)
        told = f"{file}:{line}: is not TOML: {cut(reason)}"
        raise ConfigError(
            told + (_unquoted(str(error), text) or _twice(str(error), text))
        ) from error
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond Python's limits
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file}: is not TOML: {cut(reason)}") from error


def _place(message: str, text: str) -> tuple[str, int]:
    # tomllib gives the place only in words: "... (at line 3, column 7)" or "(at end of document)".
    reason, _, place = message.partition(" (at ")
    words = place.replace(",", "").split()
    line = int(words[1]) if words[:1] == ["line"] else text.count("\n") + 1
    # It shows keys as tuples.
    reason = re.sub(r"\(('[^()]*'),?\)", lambda key: key[1].replace("', '", ".").strip("'"), reason)
    return " ".join(reason.split()), line


def _twice(message: str, text: str) -> str:
    """``: KEY`` where a key has a value already and its line has the second; else nothing."""
    place = re.search(r"\(at line (\d+), ", message)
    if place is None or not message.startswith("Cannot overwrite a value"):
        return ""
    key = _KEY.match(text.split("\n")[int(place[1]) - 1])
    return f": {cut(key[1], 60)}" if key is not None else ""


def _unquoted(message: str, text: str) -> str:
    """``: text needs quotes`` where the value that TOML stumbled over is a word; else nothing."""
    place = re.search(r"\(at line (\d+), column (\d+)\)", message)
    if place is None or not message.startswith(("Invalid value", "Expected newline")):
        return ""
    line, column = text.split("\n")[int(place[1]) - 1], int(place[2]) - 1
    for word in _UNQUOTED.finditer(line):
        # Of "2q" the 2 is a number, and the error is behind it.
        if word.start(1) <= column < word.end(1) and word[1].lower() not in ("true", "false"):
            return f': text needs quotes: "{cut(word[1], 60)}"'
    return ""


def _tool_table(data: dict[str, Any]) -> dict[str, Any] | None:
    tool = data.get("tool")
    table = tool.get("kvframe") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None
