"""The line on which a TOML file sets each key; `tomllib` does not tell."""

from __future__ import annotations

import re

from kvframe.config.origins import join

_PART = r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'"""
_KEY = rf"(?:{_PART})(?:\s*\.\s*(?:{_PART}))*"
_TABLE = re.compile(rf"\s*\[\s*({_KEY})\s*\]")
_ARRAY = re.compile(rf"\s*\[\[\s*({_KEY})\s*\]\]")
_PAIR = re.compile(rf"\s*({_KEY})\s*=")


def key_lines(text: str, root: str = "") -> dict[str, int]:
    """Map key paths below the table ``root`` to line numbers, counted from 1; "" is the root's.

    ``text`` must be valid TOML. Keys inside an inline table or an array are not found: ask for the
    key that holds them. A line inside a multi-line string that looks like a key adds a path that no
    lookup uses, unless it hides a later key of the same name; then the earlier line is given.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _ARRAY.match(line):
            name = _path(match[1])
            index = counts[name] = counts.get(name, -1) + 1
            lines.setdefault(name, number)
            table = join(name, index)
            lines[table] = number
        elif match := _TABLE.match(line):
            table = _numbered(_path(match[1]), counts)
            _note(lines, "", table, number)
        elif match := _PAIR.match(line):
            _note(lines, table, _path(match[1]), number)
    if not root:
        return lines
    prefix = root + "."
    below = {path.removeprefix(prefix): n for path, n in lines.items() if path.startswith(prefix)}
    return below | ({"": lines[root]} if root in lines else {})


def _numbered(table: str, counts: dict[str, int]) -> str:
    """The path of a table, with the number of the last item after the name of each array."""
    plain = path = ""
    for part in table.split("."):
        plain, path = join(plain, part), join(path, part)
        if plain in counts:
            path = join(path, counts[plain])
    return path


def _note(lines: dict[str, int], table: str, key: str, number: int) -> None:
    # `a.b.c = 1` sets the tables a and a.b as well, if nothing did before.
    path = table
    for part in key.split("."):
        path = join(path, part)
        lines.setdefault(path, number)


def _path(key: str) -> str:
    parts = re.findall(_PART, key)
    return ".".join(part[1:-1] if part[0] in "\"'" else part for part in parts)
