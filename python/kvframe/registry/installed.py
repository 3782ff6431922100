"""Installed packages that bring policies.

What lies in a folder of `sys.path` is read once in a process, and again when it has changed.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from kvframe.registry.descriptors import KINDS, Kind

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUPS: dict[str, Kind] = {f"kvframe.{kind}": kind for kind in KINDS}
"""Entry-point groups: one a kind, so that the kind of a policy is known before it is imported."""

OLD_GROUP = "kvframe"
"""The old group, which held every kind."""

# Of a finder that looks through sys.path in PathFinder's place, whose own it takes away.
_BACKPORT = "importlib_metadata"

_SETTLED_NS = 2_000_000_000
"""A change that comes later than this after another has another time: FAT counts in two seconds."""

_INFO = (".dist-info", ".egg-info")


@dataclass(frozen=True)
class Package:
    """An installed package: its name and version as its metadata spell them, and its entry points.

    An interrupted installation may have left either away: it is then ``unknown``.
    """

    name: str
    version: str
    entries: tuple[EntryPoint, ...]


@dataclass(frozen=True)
class _Folder:
    packages: tuple[Package, ...]
    times: dict[str, int]
    is_settled: bool

    def is_as_it_was(self) -> bool:
        return self.is_settled and all(_time(path) == was for path, was in self.times.items())


_FOLDERS: dict[str, _Folder] = {}


def packages() -> Iterator[Package]:
    """Every package with entry points for kvframe, in the order in which Python looks for modules.

    Of two of one name, the first is the one that is imported, and no other is told. A package whose
    entry points cannot be read is passed over.
    """
    seen = set()
    for package in _all():
        name = normal(package.name)
        if name not in seen:
            yield package
        if package.name != "unknown":
            seen.add(name)


def normal(name: str) -> str:
    """``name`` as PyPI compares it: a run of ``-``, ``_``, ``.`` is one ``-``; case is ignored."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _all() -> Iterator[Package]:
    # importlib.metadata brings the parsers of e-mail, which `import kvframe` need not wait for.
    from importlib.metadata import DistributionFinder

    for finder in sys.meta_path:
        find = getattr(finder, "find_distributions", None)
        if finder is PathFinder:
            for entry in sys.path:
                yield from _in(os.path.abspath(os.fsdecode(entry)))
        elif find is not None and type(finder).__module__ != _BACKPORT:
            # An importer of another kind, which says not when it changes.
            yield from _read(find(DistributionFinder.Context()))


def _in(folder: str) -> tuple[Package, ...]:
    known = _FOLDERS.get(folder)
    if known is None or not known.is_as_it_was():
        known = _FOLDERS[folder] = _look(folder)
    return known.packages


def _look(folder: str) -> _Folder:
    # Not by PathFinder: the backport takes its method away (see _BACKPORT).
    from importlib.metadata import DistributionFinder, MetadataPathFinder

    now = time.time_ns()
    times = {path: _time(path) for path in _watched(folder)}
    found = MetadataPathFinder.find_distributions(DistributionFinder.Context(path=[folder]))
    return _Folder(tuple(_read(found)), times, max(times.values()) < now - _SETTLED_NS)


def _watched(folder: str) -> Iterator[str]:
    """What changes if a package comes or goes, or if its entry points are written anew."""
    yield folder
    try:
        names = os.listdir(folder)
    except OSError:  # not there, or an archive
        return
    for name in names:
        if name.lower().endswith(_INFO) or name.lower() == "egg-info":
            info = os.path.join(folder, name)
            yield from (info, os.path.join(info, "entry_points.txt"))


def _time(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _read(found: Iterable[Distribution]) -> Iterator[Package]:
    for dist in found:
        try:
            # Few of the packages name kvframe: the others' entry points need no parsing.
            if OLD_GROUP not in (dist.read_text("entry_points.txt") or ""):
                continue
            named = (one for one in dist.entry_points if one.group in (*GROUPS, OLD_GROUP))
            entries = tuple(named)
        except Exception:  # whatever reading its file raises
            continue
        if entries:
            yield Package(_told(dist, "name"), _told(dist, "version"), entries)


def _told(dist: Distribution, key: str) -> str:
    try:
        return getattr(dist, key, None) or "unknown"
    except Exception:  # Its metadata is not even text.
        return "unknown"
