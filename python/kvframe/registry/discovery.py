"""Finds the policies that could be loaded, without importing any of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kvframe.registry.descriptors import KINDS, Kind

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUPS: dict[str, Kind] = {f"kvframe.{kind}": kind for kind in KINDS}
"""Entry-point groups: one a kind, so that the kind of a policy is known before it is imported."""

OLD_GROUP = "kvframe"
"""The old group, which held every kind."""


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
        kind: Which decision it takes; None for an entry point of the old group.
        is_installed: Whether a package brings it, which `Gate` may keep out.
    """

    name: str
    value: str
    distribution: str
    version: str
    load: Callable[[], object]
    plugin: str
    kind: Kind | None
    is_installed: bool = False

    @property
    def origin(self) -> str:
        """``distribution version``, for messages."""
        return f"{self.distribution} {self.version}".rstrip()


def installed() -> list[Candidate]:
    """Every entry point of the groups, ordered by name and distribution. Imports none of them.

    A package that an interrupted installation left without a name is called ``unknown``. A package
    whose entry points cannot be read is passed over.
    """
    found = [
        Candidate(
            name=entry.name,
            value=entry.value,
            distribution=name,
            version=version,
            load=partial(_load, entry),
            plugin=entry.name,
            kind=GROUPS.get(entry.group),
            is_installed=True,
        )
        for name, version, entries in _packages()
        for entry in entries
    ]
    return sorted(found, key=lambda candidate: (candidate.name, candidate.distribution))


def _packages() -> Iterator[tuple[str, str, Sequence[EntryPoint]]]:
    """Name, version and entry points of every package that has some of the groups."""
    seen = set()
    for dist in distributions():
        try:
            entries = [one for one in dist.entry_points if one.group in (*GROUPS, OLD_GROUP)]
        except Exception:  # whatever reading its file raises
            continue
        if not entries:
            continue
        name = _told(dist, "name")
        if normal(name) not in seen:  # of two on the path, the first is the one that is imported
            yield name, _told(dist, "version"), entries
        if name != "unknown":
            seen.add(normal(name))


def _told(dist: Distribution, key: str) -> str:
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
    from importlib.metadata import version

    return version("kvframe")


def distributions() -> Iterable[Distribution]:
    """Every installed package."""
    # importlib.metadata brings the parsers of e-mail, which `import kvframe` need not wait for.
    from importlib.metadata import distributions

    return distributions()


@dataclass(frozen=True)
class Gate:
    """The allow and block lists of ``[plugins]``: names of policies or of distributions.

    Attributes:
        allow: If not empty, only these installed packages or policies may load. Policies of this
            process, built-in ones among them, always may.
        block: These may not load, built-in ones included. Wins over `allow`.
        locked: Says why an installed one is not as it was locked; None where nothing is locked.
    """

    allow: Collection[str] = ()
    block: Collection[str] = ()
    locked: Callable[[Candidate], str | None] | None = None

    def reason(self, candidate: Candidate) -> str | None:
        """Why ``candidate`` may not load, or None if it may."""
        names = {normal(candidate.name), normal(candidate.distribution)}
        if names & {normal(entry) for entry in self.block}:
            return "plugins.block names it"
        needs_leave = bool(self.allow) and candidate.is_installed
        if needs_leave and not names & {normal(entry) for entry in self.allow}:
            return "plugins.allow does not name it"
        if self.locked is not None and candidate.is_installed:
            return self.locked(candidate)
        return None


def normal(name: str) -> str:
    """A distribution's name in the form in which two spellings of it are the same."""
    # Names are normalised as PyPI does: a run of '-', '_' and '.' is one '-', and case is ignored.
    return re.sub(r"[-_.]+", "-", name).lower()
