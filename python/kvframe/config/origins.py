"""Where each value came from, and the errors that say so."""

from __future__ import annotations

from collections.abc import Mapping

from kvframe.config.text import brief, cut
from kvframe.errors import ConfigError

DEFAULT = "default"
KEYWORD = "keyword"
ENV = "env "

MAX_REASON = 2000
"""Characters of what an error says of a value; more is cut."""


def join(path: str, part: str | int) -> str:
    """``path`` with one step more: ``cache`` and ``hash`` give ``cache.hash``."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    return f"{path}.{part}" if path else part


def parent(path: str) -> str:
    """``path`` without its last step; empty at the root."""
    return path[: max(path.rfind("."), path.rfind("["), 0)]


class Origins:
    """The origin of every key path that some layer set.

    An origin is ``default``, ``keyword``, ``env VARIABLE``, ``FILE:LINE``, or ``FILE`` where the
    line is not known.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._known: dict[str, str] = {}
        self._below: dict[str, set[str]] = {}
        for path, origin in (known or {}).items():
            self.set(path, origin)

    def set(self, path: str, origin: str) -> None:
        """Note where ``path`` came from; what lay below it is forgotten."""
        self._forget_below(path)
        self._known[path] = origin
        # A table that is set later finds this path here, without a search through all known paths.
        while path:
            path, below = parent(path), path
            children = self._below.setdefault(path, set())
            if below in children:
                break
            children.add(below)

    def _forget_below(self, path: str) -> None:
        forgotten = [path]
        while forgotten:
            for below in self._below.pop(forgotten.pop(), ()):
                self._known.pop(below, None)
                forgotten.append(below)

    def forget(self, path: str) -> None:
        """Note that no layer sets ``path`` any more, nor what lies below it."""
        self._forget_below(path)
        self._known.pop(path, None)

    def of(self, path: str) -> str:
        """The origin of ``path``, ``default`` if no layer set it."""
        return self._known.get(path, DEFAULT)

    def near(self, path: str) -> str:
        """The origin of ``path``, or else of the nearest table around it."""
        while path and path not in self._known:
            path = parent(path)
        return self._known.get(path, DEFAULT)

    def where(self, path: str) -> str:
        """The start of a message about ``path``: ``FILE:LINE: ``, ``VARIABLE: `` or nothing."""
        origin = self.near(path)
        if origin in (DEFAULT, KEYWORD):
            return ""
        return f"{origin.removeprefix(ENV)}: "

    def error(self, path: str, value: object, reason: str) -> ConfigError:
        """``FILE:LINE: PATH = VALUE: REASON``."""
        where, reason = self.where(path), cut(reason, MAX_REASON)
        return ConfigError(f"{where}{shown(path)} = {brief(value)}: {reason}")

    def missing(self, path: str, reason: str) -> ConfigError:
        """``FILE:LINE: PATH: REASON``, for a key that is not there."""
        return ConfigError(f"{self.where(path)}{shown(path)}: {cut(reason, MAX_REASON)}")


def shown(path: str) -> str:
    """A key path for a message, on one line: a key may be any text, and of any length."""
    line = path if path.isprintable() else " ".join(path.split())
    return line if len(line) <= 200 else f"{line[:200]}..."
