"""The spelling of a policy's name: ``slru``, ``slru:protected_uses=3``, ``deep.py:Deep``.

The name comes first, then a colon and the options, with commas between them. In the place of a name
may stand a place: ``FILE.py``, ``FILE.py:CLASS`` or ``MODULE:CLASS``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvframe.errors import ConfigError

_OPTION = r"\s*[A-Za-z_][\w-]*\s*="
# A value may hold commas and colons: an option begins only where a key and "=" follow.
_BEFORE_OPTION = re.compile(rf"[:,](?={_OPTION})")
_BEFORE_ITEM = re.compile(rf",(?!{_OPTION})")


class Named(NamedTuple):
    """A name, or a place, and the texts of the options given with it."""

    name: str
    options: dict[str, str]


def named(text: str, where: str) -> Named:
    """Split ``text`` into the name, or place, and the options.

    Args:
        text: As ``slru:protected_uses=3``.
        where: How a message starts: the option of the command line, or the key.

    Raises:
        ConfigError: An option is given twice, or none behind the colon.
    """
    if text.rstrip().endswith(":"):
        raise ConfigError(f"{where}: nothing stands behind the colon: NAME, or NAME:OPTION=VALUE")
    name, *pairs = _BEFORE_OPTION.split(text)
    options: dict[str, str] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key.strip() in options:
            raise ConfigError(f"{where}: {key.strip()} is given twice")
        options[key.strip()] = value.strip()
    return Named(name.strip(), options)


def listed(text: str) -> list[str]:
    """The items of a comma list, where items may be followed by options: ``slru:a=1,b=2,lru``."""
    return [item.strip() for item in _BEFORE_ITEM.split(text)]


def is_place(name: str) -> bool:
    """Whether ``name`` is the place of a policy, in a file or a module, rather than its name."""
    return ":" in name or name.endswith(".py")
