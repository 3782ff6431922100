"""Which policies could be loaded, found without importing any of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points, version

from kvframe.descriptors import Kind

GROUP = "kvframe"

PACKAGES: dict[Kind, dict[str, str]] = {
    "eviction": {
        "hyperbolic": "kvframe-hyperbolic",
        "kvflow": "kvframe-kvflow",
        "pensieve": "kvframe-pensieve",
        "t-lru": "kvframe-tlru",
    },
    "admission": {"second-hit": "kvframe-second-hit"},
    "tier": {"mooncake": "kvframe-mooncake", "redis": "kvframe-redis"},
}
"""kvframe's own packages, installed or not, by the name of what they bring."""


@dataclass(frozen=True)
class Candidate:
    """A policy that could be loaded: an entry point, or an offer of a plugin in this process.

    Attributes:
        name: The policy's name; for an installed package, its entry point's name.
        value: The module, or ``module:object``, that holds the hooks.
        distribution: The installed package it comes from, as its metadata spells it.
        version: That package's version.
        load: Imports the module and answers the object; raises whatever the import raises.
        plugin: The plugin's name.
        kind: Which decision it takes; None as long as only an import could tell.
    """

    name: str
    value: str
    distribution: str
    version: str
    load: Callable[[], object]
    plugin: str
    kind: Kind | None = None

    @property
    def origin(self) -> str:
        """``distribution version``, for messages."""
        return f"{self.distribution} {self.version}".rstrip()


def known_kind(candidate: Candidate) -> Kind | None:
    """The kind that can be told without an import: kvframe's own, and what this process offers."""
    if candidate.kind is not None:
        return candidate.kind
    package = _normal(candidate.distribution)
    brought = (kind for kind, names in PACKAGES.items() if names.get(candidate.name) == package)
    return next(brought, None)


def installed() -> list[Candidate]:
    """Every entry point of the group, ordered by name and distribution. Imports none of them.

    What an installation that broke off left without a name is of ``unknown``; a package whose entry
    points cannot be read is passed over.
    """
    try:
        entries: Iterable[EntryPoint] = entry_points(group=GROUP)
    except Exception:  # Somebody's metadata is damaged, and any package may be that somebody.
        entries = _readable()
    found = [
        Candidate(
            name=entry.name,
            value=entry.value,
            distribution=_told(entry.dist, "name"),
            version=_told(entry.dist, "version"),
            load=partial(_load, entry),
            plugin=entry.name,
        )
        for entry in entries
    ]
    return sorted(found, key=lambda candidate: (candidate.name, candidate.distribution))


def _readable() -> Iterator[EntryPoint]:
    seen = set()
    for dist in distributions():
        try:
            entries = dist.entry_points
        except Exception:  # whatever reading its file raises
            continue
        name = _normal(_told(dist, "name"))
        if name not in seen:  # of two on the path, the first is the one that is imported
            yield from entries.select(group=GROUP)
        if name != "unknown":
            seen.add(name)


def _told(dist: Distribution | None, key: str) -> str:
    try:
        return getattr(dist, key, None) or "unknown"
    except Exception:  # Its metadata is not even text.
        return "unknown"


def _load(entry: EntryPoint) -> object:
    if entry.pattern.match(entry.value) is None:
        raise ValueError("an entry point's value must be MODULE or MODULE:OBJECT")
    return entry.load()


def own_version() -> str:
    """The installed version of kvframe itself."""
    return version("kvframe")


@dataclass(frozen=True)
class Gate:
    """The allow and block lists of ``[plugins]``: names of policies or of distributions.

    Attributes:
        allow: If not empty, only these installed packages or policies may load. Policies of this
            process, built-in ones among them, need no leave.
        block: These may not load, built-in ones included. Wins over `allow`.
    """

    allow: Collection[str] = ()
    block: Collection[str] = ()

    def reason(self, candidate: Candidate) -> str | None:
        """Why ``candidate`` may not load, or None if it may."""
        names = {_normal(candidate.name), _normal(candidate.distribution)}
        if names & {_normal(entry) for entry in self.block}:
            return "plugins.block names it"
        needs_leave = bool(self.allow) and candidate.kind is None
        if needs_leave and not names & {_normal(entry) for entry in self.allow}:
            return "plugins.allow does not name it"
        return None


def _normal(name: str) -> str:
    # Names compare as PyPI compares them: runs of '-', '_' and '.' are one, case is nothing.
    return re.sub(r"[-_.]+", "-", name).lower()
