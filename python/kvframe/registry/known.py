"""Names that kvframe's own packages bring, for the message where such a package is missing."""

from __future__ import annotations

import sys
from typing import NamedTuple

from kvframe.registry.descriptors import Kind
from kvframe.spelling import plain


class Own(NamedTuple):
    """A package of kvframe's own.

    Attributes:
        package: What pip installs.
        name: What a configuration says; an engine's name, for what that engine loads.
        kind: Where that is said. None for what an engine loads.
    """

    package: str
    name: str
    kind: Kind | None

    def instead(self, written: str, where: str | None, is_there: bool) -> str:
        """What to do instead of naming it as ``written``.

        Args:
            written: The name that was not found.
            where: The key that it belongs to, if it was looked for under another.
            is_there: The package is installed already.
        """
        install = f"install it: {sys.executable} -m pip install {self.package}"
        if self.kind is None:
            return f"it is an engine, which loads {self.package} by itself; {install}"
        called = f", called {self.name}" if written != self.name else ""
        named = f", named in {where}" if where else ""
        return f"{self.package} brings it{called}{named}" + ("" if is_there else f"; {install}")


OWN = (
    Own("kvframe-hyperbolic", "hyperbolic", "eviction"),
    Own("kvframe-kvflow", "kvflow", "eviction"),
    Own("kvframe-mooncake", "mooncake", "store"),
    Own("kvframe-pensieve", "pensieve", "eviction"),
    Own("kvframe-redis", "redis", "store"),
    Own("kvframe-second-hit", "second-hit", "admission"),
    Own("kvframe-sglang", "sglang", None),
    Own("kvframe-tlru", "t-lru", "eviction"),
    Own("kvframe-vllm", "vllm", None),
    Own("kvframe-volatile", "volatile", "prefix"),
)


def own(written: str) -> Own | None:
    """The package that brings ``written``, which may be spelt as the package is."""
    short = plain(written).removeprefix("kvframe_")
    for package in OWN:
        if short in (plain(package.name), plain(package.package).removeprefix("kvframe_")):
            return package
    return None
