"""Finds the policy that a name means, and loads that one and no other."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Generic, TypeVar, cast

from kvframe._core import __version__
from kvframe.arguments import shown
from kvframe.errors import PluginError, UsageError
from kvframe.registry import places
from kvframe.registry.descriptors import (
    AdmissionPolicy,
    Descriptor,
    EvictionPolicy,
    Kind,
    PrefixMatcher,
    TierStore,
    TraceForm,
    Way,
)
from kvframe.registry.discovery import Candidate, Gate, installed
from kvframe.registry.hooks import offers_of, wraps
from kvframe.registry.installed import GROUPS, OLD_GROUP
from kvframe.registry.known import OWN, own
from kvframe.registry.lock import Lock
from kvframe.registry.naming import is_place
from kvframe.registry.raised import one_line
from kvframe.spelling import nearest

D = TypeVar("D", bound=Descriptor)

_WORDS: dict[Kind, str] = {
    "eviction": "eviction policy",
    "admission": "admission policy",
    "prefix": "prefix matcher",
    "store": "tier store",
    "trace": "trace form",
}
_KEY: dict[Kind, str] = {
    "eviction": "eviction.policy (bench: --policy)",
    "admission": "admission.policy (bench: --admission)",
    "prefix": "prefix.policy (bench: --prefix)",
    "store": "tiers.store",
    "trace": "--trace-format",
}
"""Where a name of each kind belongs."""

HERE = "this process"
BUILTIN = (
    "policies.builtin",
    "policies.builtin_admission",
    "policies.builtin_prefix",
    "tiers.builtin",
)
"""Modules that hold kvframe's own plugins."""


@dataclass(frozen=True)
class Loaded(Generic[D]):
    """A policy that was found, with the package and the plugin it came from.

    ``is_imported`` is False for one that is named by its place where nothing may be imported: its
    descriptor then has the name and no more. ``place`` is that place, if it was named by one.
    """

    descriptor: D
    distribution: str
    version: str
    plugin: str
    is_imported: bool = True
    place: str = ""


@dataclass(frozen=True)
class PluginInfo:
    """One row of ``kvframe plugins``.

    Attributes:
        name: The policy's name.
        kind: Which decision it takes. None for an entry point of the old group, which does not say.
        way: How it is written. None where the plugin was not imported, or could not be.
        distribution: The installed package it comes from.
        version: That package's version.
        state: ``ok``, ``blocked: REASON`` or ``broken: REASON``.
        source: The paper or system it names. None where `way` is.
    """

    name: str
    kind: Kind | None
    way: Way | None
    distribution: str
    version: str
    state: str
    source: str | None


class Registry:
    """The policies that a name can mean: built-in ones, and those of installed packages.

    A lookup imports the one entry point, or the one file, that it names. Building a registry
    imports no plugin; building many, in one process or several, is harmless. Installed packages are
    looked through once, at the first lookup: one that comes later is seen by a new registry, or
    after `refresh`.

    Args:
        allow: If not empty, only these distributions or policies may load (and the built-in ones).
        block: These distributions or policies may not load.
        lock: Installed packages load only as they are there; None locks nothing.

    Raises:
        UsageError: One of these is no collection of names.
    """

    def __init__(
        self,
        allow: Collection[str] = (),
        block: Collection[str] = (),
        *,
        lock: Lock | None = None,
    ) -> None:
        locked = None if lock is None else lock.reason
        self._gate = Gate(_names("allow", allow), _names("block", block), locked)
        self._wrappers: list[object] = []
        self._installed: list[Candidate] | None = None
        offers, candidates = _own()
        # The key is id(plugin), because a plugin may be unhashable. The value keeps the plugin
        # alive, so that no other object gets the same id.
        self._offers: dict[int, tuple[object, tuple[Descriptor, ...]]] = {**offers}
        self._local: list[Candidate] = [*candidates]

    def register(
        self, holder: object, name: str, distribution: str = HERE, version: str = ""
    ) -> None:
        """Add a plugin that no package brings: a module or object of the running program.

        Doing so again with the same object changes nothing. Its hook wrappers, if it has any, go
        around the hooks of every plugin that is loaded from then on.

        Raises:
            PluginError: A hook of ``holder`` is misspelt, raises, or gives a wrong descriptor.
        """
        if id(holder) in self._offers:
            return
        value = getattr(holder, "__name__", type(holder).__name__)
        candidate = Candidate(
            "", value, distribution, version, partial(_itself, holder), name, None
        )
        for offer in self._load(candidate):
            self._local.append(replace(candidate, name=offer.name, kind=offer.kind))
        if wraps(holder):
            self._wrappers.append(holder)

    def eviction(self, name: str) -> Loaded[EvictionPolicy]:
        """The eviction policy ``name``, or the one at a place (``FILE.py:CLASS``).

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

    def store(self, name: str) -> Loaded[TierStore]:
        """The store ``name`` of a lower tier; raises as `eviction` does."""
        return self._get(TierStore, name)

    def trace(self, name: str) -> Loaded[TraceForm]:
        """The form of trace ``name``; raises as `eviction` does."""
        return self._get(TraceForm, name)

    def at(self, place: str) -> Sequence[Loaded[Descriptor]]:
        """What the policies and stores at ``place`` are: ``FILE.py``, ``FILE.py:CLASS``, a module.

        Raises:
            PluginError: It cannot be imported, or holds no policy.
        """
        home = place.partition(":")[0]
        if self.has(home):  # a name, and an option without a value
            raise PluginError(f"{place}: options of {home} are written {home}:OPTION=VALUE")
        holder = places.load(place, self.has)
        offers = self._called(holder, place, HERE)
        return [Loaded(offer, HERE, "", place, place=place) for offer in offers]

    def refresh(self) -> None:
        """Look through the installed packages again at the next lookup.

        What was imported before stays as it is: Python keeps modules.
        """
        self._installed = None

    def has(self, name: str) -> bool:
        """Whether something of that name, of any kind, could be loaded. Imports nothing."""
        return any(found.name == name and found.kind for found in self._candidates())

    def candidates(self, kind: Kind) -> Sequence[Candidate]:
        """What a lookup of ``kind`` chooses from; blocked ones too. Imports nothing."""
        return [found for found in self._candidates() if found.kind == kind]

    def list(self) -> Sequence[PluginInfo]:
        """Every policy that is installed, broken and blocked ones too. Imports those it may."""
        return [self._row(candidate) for candidate in self._candidates()]

    def _candidates(self) -> Sequence[Candidate]:
        if self._installed is None:
            self._installed = installed()
        return self._local + self._installed

    def _get(self, wanted: type[D], name: str) -> Loaded[D]:
        kind = wanted.kind
        if not isinstance(name, str):
            raise UsageError(f"{_WORDS[kind]} {shown(name)}: must be named by a string")
        if is_place(name):
            return cast("Loaded[D]", only(self.at(name), (kind,), name))
        named = [found for found in self.candidates(kind) if found.name == name]
        if not named:
            raise PluginError(self._not_found(kind, name))
        free = [found for found in named if self._gate.reason(found) is None]
        if not free:
            first = named[0]
            raise PluginError(
                f"{_WORDS[kind]} {name} ({first.origin}) is blocked: {self._gate.reason(first)}"
            )
        if len(free) > 1:
            raise PluginError(f"{_WORDS[kind]} {name} has two sources: {_two_sources(free)}")
        chosen = free[0]
        offer = self._offered(chosen)
        return Loaded(cast("D", offer), chosen.distribution, chosen.version, chosen.plugin)

    def _offered(self, candidate: Candidate) -> Descriptor:
        """What the candidate gives under its own name and kind."""
        offers = self._load(candidate)
        for offer in offers:
            if (offer.kind, offer.name) == (candidate.kind, candidate.name):
                return offer
        kind = _WORDS[candidate.kind] if candidate.kind else "policy"
        raise PluginError(
            f"plugin {candidate.plugin} ({candidate.origin}): {candidate.value} gives no "
            f"{kind} named {candidate.name}, {_only(offers)}"
        )

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
        return self._called(holder, candidate.plugin, candidate.origin)

    def _called(self, holder: object, name: str, origin: str) -> tuple[Descriptor, ...]:
        # One module may hold the policies of several entry points; its hooks are called once.
        if id(holder) not in self._offers:
            self._offers[id(holder)] = holder, offers_of(holder, name, origin, self._wrappers)
        return self._offers[id(holder)][1]

    def _not_found(self, kind: Kind, name: str) -> str:
        found: dict[str, list[str]] = {}
        for candidate in self.candidates(kind):
            found.setdefault(candidate.origin, []).append(candidate.name)
        for other in self._candidates():
            if other.name == name and other.kind is None:
                return f"no {_WORDS[kind]} {name}: {_old_group(other, kind)}"
            if other.name == name and other.kind is not None:
                it_is = f"it is of kind {other.kind}, named in {_KEY[other.kind]}"
                return f"no {_WORDS[kind]} {name}: {it_is}"
        names = [name for group in found.values() for name in group]
        listing = "; ".join(f"{', '.join(group)} ({origin})" for origin, group in found.items())
        said, have = f"no {_WORDS[kind]} {_named(name)}", f"Found: {listing or 'none'}"
        if (mine := own(name)) is not None:
            there = mine.kind and any(one.name == mine.name for one in self.candidates(mine.kind))
            where = _KEY[mine.kind] if mine.kind and mine.kind != kind else None
            return f"{said}: {mine.instead(name, where, bool(there))}. {have}"
        how = f"for {sys.executable} with pip, then look with: kvframe plugins"
        away = {one.name: one.package for one in OWN if one.kind == kind and one.name not in names}
        near = nearest(name, [*names, *away])
        of = f", of the package {away[near]}" if near in away else ""
        hint = f"; did you mean {near}{of}?" if near else "."
        return f"{said}{hint} {have}. If a package brings it, install that {how}"

    def _row(self, candidate: Candidate) -> PluginInfo:
        offer, state = None, "ok"
        rivals = [
            other
            for other in self.candidates(candidate.kind or "eviction")
            if other.name == candidate.name and self._gate.reason(other) is None
        ]
        if (reason := self._gate.reason(candidate)) is not None:
            state = f"blocked: {reason}"
        elif candidate.kind is None:
            state = f"broken: {_old_group(candidate)}"
        else:
            try:
                offer = self._offered(candidate)
            except PluginError as error:
                state = f"broken: {error}"
            else:
                if len(rivals) > 1:
                    state = f"broken: two sources: {_two_sources(rivals)}"
        return PluginInfo(
            name=candidate.name,
            kind=candidate.kind,
            way=offer.way if offer else None,
            distribution=candidate.distribution,
            version=candidate.version,
            state=state,
            source=offer.source if offer else None,
        )


@cache
def _own() -> tuple[dict[int, tuple[object, tuple[Descriptor, ...]]], list[Candidate]]:
    """What kvframe's own plugins give, as `Registry` keeps it."""
    offers: dict[int, tuple[object, tuple[Descriptor, ...]]] = {}
    candidates: list[Candidate] = []
    for name in BUILTIN:
        # Imported by name, as plugins of packages are: no module of this layer may import a policy.
        module = importlib.import_module(f"kvframe.{name}")
        given = offers_of(module, "builtin", f"kvframe {__version__}")
        offers[id(module)] = module, given
        candidates += [
            Candidate(
                name=offer.name,
                value=module.__name__,
                distribution="kvframe",
                version=__version__,
                load=partial(_itself, module),
                plugin="builtin",
                kind=offer.kind,
            )
            for offer in given
        ]
    return offers, candidates


def _itself(holder: object) -> object:
    return holder


def only(
    found: Sequence[Loaded[Descriptor]], kinds: Collection[Kind], place: str
) -> Loaded[Descriptor]:
    """The one policy of ``kinds`` among those ``found`` at a place.

    Raises:
        PluginError: There is none, or there are several.
    """
    mine = [loaded for loaded in found if loaded.descriptor.kind in kinds]
    if len(mine) == 1:
        return mine[0]
    if mine:
        names = ", ".join(loaded.descriptor.name for loaded in mine)
        raise PluginError(f"{place}: it gives {names}: name an installed one, or MODULE:CLASS")
    others = ", ".join(
        f"{_article(loaded.descriptor.kind)} ({loaded.descriptor.name})" for loaded in found
    )
    wanted = " or ".join(_article(kind) for kind in kinds)
    told = f"it gives {others}; must be {wanted}" if others else "it gives no policy"
    raise PluginError(f"{place}: {told}")


def _article(kind: Kind) -> str:
    return f"{'an' if _WORDS[kind][0] in 'ae' else 'a'} {_WORDS[kind]}"


def _names(which: str, given: object) -> tuple[str, ...]:
    # A string is a collection too, of its letters.
    if isinstance(given, Collection) and not isinstance(given, str):
        names = tuple(given)
        if all(isinstance(name, str) for name in names):
            return names
    raise UsageError(f"{which} = {shown(given)}: must be a collection of names")


def _named(name: str) -> str:
    # The text may contain anything: a message quotes what it cannot show as it is.
    plain = name.isprintable() and name and len(name) <= 60
    return name if plain else repr(name[:60])


def _only(offers: Sequence[Descriptor]) -> str:
    names = ", ".join(f"{offer.kind} {offer.name}" for offer in offers)
    return f"only {names}" if names else "nor anything else"


def _old_group(candidate: Candidate, kind: Kind | None = None) -> str:
    now = f"kvframe.{kind}" if kind else f"one of {', '.join(GROUPS)}"
    return (
        f"{candidate.origin} names it in the entry-point group {OLD_GROUP}, "
        f"which is now {now}: install a version that does so"
    )


def _two_sources(candidates: Sequence[Candidate]) -> str:
    sources = " and ".join(f"{found.origin} ({found.value})" for found in candidates)
    return f"{sources}; uninstall one, or name its distribution in plugins.block"
