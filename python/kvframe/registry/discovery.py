"""Finds the policies that could be loaded, without importing any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kvframe.registry.descriptors import Kind
from kvframe.registry.installed import GROUPS, normal, packages

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


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
    """Every entry point of the groups, ordered by name and distribution. Imports none of them."""
    found = [
        Candidate(
            name=entry.name,
            value=entry.value,
            distribution=package.name,
            version=package.version,
            load=partial(_load, entry),
            plugin=entry.name,
            kind=GROUPS.get(entry.group),
            is_installed=True,
        )
        for package in packages()
        for entry in package.entries
    ]
    return sorted(found, key=lambda candidate: (candidate.name, candidate.distribution))


def _load(entry: EntryPoint) -> object:
    if entry.pattern.match(entry.value) is None:
        raise ValueError("an entry point's value must be MODULE or MODULE:OBJECT")
    return entry.load()


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
