"""Finds the policy that a name means, and loads that one and no other."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pluggy

from kvframe import hookspecs
from kvframe.arguments import shown
from kvframe.descriptors import (
    AdmissionPolicy,
    Descriptor,
    EvictionPolicy,
    Kind,
    PrefixMatcher,
    TierStore,
    Way,
)
from kvframe.discovery import PACKAGES, Candidate, Gate, installed, known_kind, own_version
from kvframe.errors import PluginError, UsageError
from kvframe.plugin import one_line, register
from kvframe.spelling import did_you_mean

D = TypeVar("D", bound=Descriptor)

_WORDS: dict[Kind, str] = {
    "eviction": "eviction policy",
    "admission": "admission policy",
    "prefix": "prefix matcher",
    "tier": "tier store",
}
_KEY: dict[Kind, str] = {
    "eviction": "policy.eviction (bench: --policy)",
    "admission": "admission.policy (bench: --admission)",
    "prefix": "prefix.policy (bench: --prefix)",
    "tier": "tiers.store",
}
"""Where a name of each kind belongs."""

BUILTIN = (
    "policies.builtin",
    "policies.builtin_admission",
    "policies.builtin_prefix",
    "tiers.builtin",
)
"""Modules that hold kvframe's own plugins."""


@dataclass(frozen=True)
class Loaded(Generic[D]):
    """A policy that was found and imported, with the package and the plugin it came from."""

    descriptor: D
    distribution: str
    version: str
    plugin: str


@dataclass(frozen=True)
class PluginInfo:
    """One row of ``kvframe plugins``.

    Attributes:
        name: The policy's name.
        kind: Which decision it takes. None where the plugin was not imported, or could not be.
        way: How it is written. None where `kind` is.
        distribution: The installed package it comes from.
        version: That package's version.
        state: ``ok``, ``blocked: REASON`` or ``broken: REASON``.
        source: The paper or system it names. None where `kind` is.
    """

    name: str
    kind: Kind | None
    way: Way | None
    distribution: str
    version: str
    state: str
    source: str | None


class Registry:
    """The policies that can be named here and now: built-in ones, and those of installed packages.

    A lookup imports the one entry point it names; one that finds nothing imports those whose kind
    its error has to know. Building a registry imports no plugin; building
    many, in one process or several, is harmless. Installed packages are looked through once, at the
    first lookup: one that comes later is seen by a new registry, or after `refresh`.

    Args:
        allow: If not empty, only these distributions or policies may load (and the built-in ones).
        block: These distributions or policies may not load.

    Raises:
        UsageError: One of these is no collection of names.
    """

    def __init__(self, allow: Collection[str] = (), block: Collection[str] = ()) -> None:
        self._gate = Gate(_names("allow", allow), _names("block", block))
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._local: list[Candidate] = []
        self._installed: list[Candidate] | None = None
        self._offers: dict[int, tuple[Descriptor, ...]] = {}  # by id(); the manager keeps it alive
        # By its name, as the plugins of others are: nothing in this layer may import a policy.
        for module in BUILTIN:
            builtin = importlib.import_module(f"kvframe.{module}")
            self.register(builtin, "builtin", distribution="kvframe", version=own_version())

    def register(
        self, holder: object, name: str, distribution: str = "this process", version: str = ""
    ) -> None:
        """Add a plugin that no package brings: a module or object of the running program.

        Doing so again with the same object changes nothing.

        Raises:
            PluginError: A hook of ``holder`` is misspelt, raises, or gives a wrong descriptor.
        """
        if self._manager.is_registered(holder):
            return
        value = getattr(holder, "__name__", type(holder).__name__)
        candidate = Candidate("", value, distribution, version, lambda: holder, plugin=name)
        for offer in self._load(candidate):
            self._local.append(replace(candidate, name=offer.name, kind=offer.kind))

    def eviction(self, name: str) -> Loaded[EvictionPolicy]:
        """The eviction policy ``name``.

        Raises:
            PluginError: It is not found, blocked, broken, or named by two packages. The message
                says what was found and where from.
        """
        return self._get(EvictionPolicy, name)

    def admission(self, name: str) -> Loaded[AdmissionPolicy]:
        """The admission policy ``name``; raises as `eviction` does."""
        return self._get(AdmissionPolicy, name)

    def prefix(self, name: str) -> Loaded[PrefixMatcher]:
        """The prefix matcher ``name``; raises as `eviction` does."""
        return self._get(PrefixMatcher, name)

    def tier(self, name: str) -> Loaded[TierStore]:
        """The store ``name`` of a lower tier; raises as `eviction` does."""
        return self._get(TierStore, name)

    def refresh(self) -> None:
        """Look through the installed packages again at the next lookup.

        What was imported before stays as it is: Python keeps modules.
        """
        self._installed = None

    def candidates(self, kind: Kind) -> Sequence[Candidate]:
        """What a lookup of ``kind`` chooses from; blocked ones too. Imports nothing."""
        return [found for found in self._candidates() if known_kind(found) in (None, kind)]

    def list(self) -> Sequence[PluginInfo]:
        """Every policy that is installed, broken and blocked ones too. Imports those it may."""
        everything = self._candidates()
        return [row for candidate in everything for row in self._rows(candidate, everything)]

    def _candidates(self) -> Sequence[Candidate]:
        if self._installed is None:
            self._installed = installed()
        return self._local + self._installed

    def _get(self, wanted: type[D], name: str) -> Loaded[D]:
        kind = wanted.kind
        if not isinstance(name, str):
            raise UsageError(f"{_WORDS[kind]} {shown(name)}: must be named by a string")
        named = [found for found in self.candidates(kind) if found.name == name]
        if not named:
            raise PluginError(self._not_found(kind, name))
        free = [found for found in named if self._gate.reason(found) is None]
        if not free:
            first = named[0]
            raise PluginError(
                f"{_WORDS[kind]} {name} ({first.origin}) is blocked: {self._gate.reason(first)}"
            )
        rivals = self._rivals(kind, name, free)
        if len(rivals) > 1:
            raise PluginError(f"{_WORDS[kind]} {name} has two sources: {_two_sources(rivals)}")
        (chosen,) = rivals or free[:1]
        offers = self._load(chosen)
        for offer in offers:
            if isinstance(offer, wanted) and offer.name == name:
                return Loaded(offer, chosen.distribution, chosen.version, chosen.plugin)
        raise PluginError(
            f"plugin {name} ({chosen.origin}): {chosen.value} gives no {_WORDS[kind]} "
            f"named {name}, {_only(offers)}"
        )

    def _rivals(self, kind: Kind, name: str, named: Sequence[Candidate]) -> Sequence[Candidate]:
        """Those that give ``name`` of this kind; of several packages, only an import can tell."""
        if len(named) == 1:
            return named

        return [candidate for candidate in named if self._gives(candidate, kind, unknown=True)]

    def _gives(self, candidate: Candidate, kind: Kind, unknown: bool = False) -> bool:
        """Whether it gives its name in this kind; ``unknown`` if it cannot be imported."""
        if (told := known_kind(candidate)) is not None:
            return told == kind
        if self._gate.reason(candidate) is not None:
            return unknown
        try:
            offers = self._load(candidate)
        except PluginError:
            return unknown
        return any((offer.kind, offer.name) == (kind, candidate.name) for offer in offers)

    def _load(self, candidate: Candidate) -> tuple[Descriptor, ...]:
        try:
            holder = candidate.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # A module may be a script that ends the program.
            raise PluginError(
                f"plugin {candidate.plugin} ({candidate.origin}): "
                f"cannot import {candidate.value}: {one_line(error)}"
            ) from error
        # One module may hold the policies of several entry points; it is registered once.
        if id(holder) not in self._offers:
            self._offers[id(holder)] = register(
                self._manager, holder, candidate.plugin, candidate.origin
            )
        return self._offers[id(holder)]

    def _not_found(self, kind: Kind, name: str) -> str:
        found: dict[str, list[str]] = {}
        for candidate in self.candidates(kind):
            if self._gives(candidate, kind):
                found.setdefault(candidate.origin, []).append(candidate.name)
        kinds = (known_kind(at) for at in self._candidates() if at.name == name)
        if (other := next((at for at in kinds if at is not None), None)) is not None:
            return f"no {_WORDS[kind]} {name}: it is of kind {other}, named in {_KEY[other]}"
        names = [name for group in found.values() for name in group]
        listing = "; ".join(f"{', '.join(group)} ({origin})" for origin, group in found.items())
        how = f"for {sys.executable} with pip, then look with: kvframe plugins"
        said, have = f"no {_WORDS[kind]} {_named(name)}", f"Found: {listing or 'none'}"
        if (package := PACKAGES.get(kind, {}).get(name)) is not None:
            return f"{said}: it comes with a package, install {package} {how}. {have}"
        hint = did_you_mean(name, names) or "."
        return f"{said}{hint} {have}. One comes with a package: install it {how}"

    def _rows(self, candidate: Candidate, everything: Sequence[Candidate]) -> Sequence[PluginInfo]:
        def row(state: str, offer: Descriptor | None = None) -> PluginInfo:
            return PluginInfo(
                name=candidate.name,
                kind=offer.kind if offer else candidate.kind,
                way=offer.way if offer else None,
                distribution=candidate.distribution,
                version=candidate.version,
                state=state,
                source=offer.source if offer else None,
            )

        reason = self._gate.reason(candidate)
        if reason is not None:
            return [row(f"blocked: {reason}")]
        try:
            loaded = self._load(candidate)
        except PluginError as error:
            return [row(f"broken: {error}")]
        offers = [
            offer
            for offer in loaded
            if offer.name == candidate.name and candidate.kind in (None, offer.kind)
        ]
        if not offers:
            gives = f"{candidate.value} gives nothing named {candidate.name}, {_only(loaded)}"
            return [row(f"broken: {gives}")]
        named = [
            other
            for other in everything
            if other.name == candidate.name and self._gate.reason(other) is None
        ]
        rivals = {offer.kind: self._rivals(offer.kind, offer.name, named) for offer in offers}
        return [
            row(f"broken: two sources: {_two_sources(rivals[offer.kind])}", offer)
            if len(rivals[offer.kind]) > 1
            else row("ok", offer)
            for offer in offers
        ]


def _names(which: str, given: object) -> tuple[str, ...]:
    # A string is a collection too, of its letters.
    if isinstance(given, Collection) and not isinstance(given, str):
        names = tuple(given)
        if all(isinstance(name, str) for name in names):
            return names
    raise UsageError(f"{which} = {shown(given)}: must be a collection of names")


def _named(name: str) -> str:
    # It may be any text: what a message cannot show as it is, it shows quoted.
    plain = name.isprintable() and name and len(name) <= 60
    return name if plain else repr(name[:60])


def _only(offers: Sequence[Descriptor]) -> str:
    names = ", ".join(f"{offer.kind} {offer.name}" for offer in offers)
    return f"only {names}" if names else "nor anything else"


def _two_sources(candidates: Sequence[Candidate]) -> str:
    sources = " and ".join(f"{found.origin} ({found.value})" for found in candidates)
    return f"{sources}; uninstall one, or name its distribution in plugins.block"
