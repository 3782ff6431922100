"""Limits on the size of a configuration, checked before it is parsed, so no file takes long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvframe.errors import ConfigError

MAX_DEPTH = 32
"""Tables and arrays inside one another, and parts of a dotted key."""

MAX_NUMBER = 128
"""Characters of a number; the largest of TOML's takes 66."""

MAX_KEY = 256
"""Characters of a key, one part of a dotted one."""

MAX_ITEMS = 100_000
"""Keys and items of arrays."""

MAX_TEXT = 1 << 16
"""Characters of an environment variable."""

MAX_ERRORS = 20
"""Errors that are listed; the others are counted."""

_WORD = "A-Za-z0-9_+-"
_TOKEN = re.compile(
    r'''(?P<text>"""(?:[^\\]|\\.)*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z)'''
    r"""|"(?:[^"\\\n]|\\.)*"?|\'[^\'\n]*\'?)[ \t]*"""
    r"|\#[^\n]*|(?P<open>[\[{])|(?P<close>[\]}])|(?P<dot>\.[ \t]*)"
    rf"|(?P<word>[{_WORD}]+)[ \t]*|[^\"'#\[\]{{}}.{_WORD}]+",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?[0-9]")


def check_text(text: str) -> tuple[str, int] | None:
    """The limit that a TOML text exceeds, and the line; None if it exceeds none.

    It looks at brackets, dots and words alone: the parser reports invalid TOML.
    """
    depth = dots = length = 0  # length of a number: the words around a dot are one
    wrong = ""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "dot":
            dots += 1
            length += 1
            if dots >= MAX_DEPTH:
                wrong = f"a key of more than {MAX_DEPTH} parts"
        elif kind == "word":
            length += len(match["word"])
            if length > MAX_NUMBER and _NUMBER.match(text, match.end("word") - length):
                wrong = f"a number of {length} characters: must have at most {MAX_NUMBER}"
        else:
            length = 0
            if kind != "text":
                dots = 0
            if kind == "open":
                depth += 1
                if depth > MAX_DEPTH:
                    wrong = f"tables and arrays more than {MAX_DEPTH} deep"
            elif kind == "close":
                depth = max(depth - 1, 0)
        if wrong:
            return wrong, text.count("\n", 0, match.start()) + 1
    return None


def check_tree(tables: Mapping[str, Any], where: str) -> None:
    """Refuses tables that are too deep or too many, or have too long a key.

    Args:
        tables: What a layer of the configuration gives.
        where: How a message starts: the layer, and a colon.

    Raises:
        ConfigError: A limit is passed; the message names the key.
    """
    count = 0
    rest: list[tuple[str, object, int]] = [("", tables, 0)]
    while rest:
        path, value, depth = rest.pop()
        if depth > MAX_DEPTH:
            limit = f"tables and arrays more than {MAX_DEPTH} deep"
            raise ConfigError(f"{where}{path[:200]}: {limit}")
        if isinstance(value, Mapping):
            for name, item in value.items():
                key = str(name)
                here = f"{path}.{key}" if path else key
                if len(key) > MAX_KEY:
                    limit = f"a key of {len(key)} characters: must have at most {MAX_KEY}"
                    raise ConfigError(f"{where}{here[:200]}...: {limit}")
                rest.append((here, item, depth + 1))
            count += len(value)
        elif isinstance(value, list | tuple):
            count += len(value)
            if count <= MAX_ITEMS:
                rest += [(f"{path}[{i}]", item, depth + 1) for i, item in enumerate(value)]
        if count > MAX_ITEMS:
            limit = f"more than {MAX_ITEMS} keys and items"
            raise ConfigError(f"{where}{path[:200] or 'the configuration'}: {limit}")
