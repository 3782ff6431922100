"""``plugins.lock``: version and hash of the packages that may load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import msgspec

from kvframe.errors import PluginError
from kvframe.files import CONFIG_BYTES, read_regular
from kvframe.registry.discovery import Candidate
from kvframe.registry.installed import normal


class Package(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A package as it was locked.

    Attributes:
        version: Of the distribution.
        modules: SHA-256 of each top-level module that it names in entry points.
    """

    version: str
    modules: dict[str, str]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    packages: dict[str, Package] = {}


class Lock:
    """What `kvframe plugins lock` wrote.

    Args:
        packages: By the distribution's name.
    """

    def __init__(self, packages: Mapping[str, Package]) -> None:
        self._packages = {normal(name): package for name, package in packages.items()}

    @classmethod
    def read(cls, path: Path) -> Lock:
        """The lock in a file.

        Raises:
            PluginError: It cannot be read, or is no lock.
        """
        try:
            return cls(msgspec.toml.decode(read_regular(path, CONFIG_BYTES), type=_File).packages)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise PluginError(
                f"cannot be read: {error}; kvframe plugins lock writes one"
            ) from error

    def reason(self, candidate: Candidate) -> str | None:
        """Why a candidate may not load; None if it is as it was locked. Imports nothing."""
        package = self._packages.get(normal(candidate.distribution))
        module = _module(candidate)
        if package is None or module not in package.modules:
            return "plugins.lock does not name it"
        if package.version != candidate.version:
            return f"plugins.lock has version {package.version}"
        if package.modules[module] != digest(module):
            return f"the files of {module} are not those of plugins.lock"
        return None


def locked(candidates: Iterable[Candidate]) -> str:
    """What installed packages are now, as a file for `Lock.read`. Imports none of them.

    Raises:
        PluginError: A module of theirs is not there, or cannot be read.
    """
    packages: dict[str, Package] = {}
    for found in candidates:
        if found.is_installed:
            package = packages.setdefault(normal(found.distribution), Package(found.version, {}))
            module = _module(found)
            if not (sum_ := digest(module)):
                raise PluginError(f"{found.origin}: no module {module} that could be locked")
            package.modules[module] = sum_
    return _text(packages)


def digest(module: str) -> str:
    """SHA-256 (hex) over every file of a top-level module; empty if it is not found.

    Bytecode that Python keeps beside them is left out.
    """
    told = sha256()
    try:
        paths = sorted(_files(module))
        for name, path in paths:
            data = path.read_bytes()
            for part in (name.encode("utf-8", "surrogateescape"), data):
                told.update(len(part).to_bytes(8, "little") + part)
    except (OSError, ValueError, ImportError):
        return ""
    return told.hexdigest() if paths else ""


def _files(module: str) -> Iterator[tuple[str, Path]]:
    spec = find_spec(module)  # of a top-level module: looks for it, and imports nothing
    if spec is None:
        return
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    if not folders and spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)
    for folder in folders:
        for path in folder.rglob("*"):
            name = path.relative_to(folder)
            if "__pycache__" not in name.parts and path.is_file():
                yield name.as_posix(), path


def _module(candidate: Candidate) -> str:
    return candidate.value.partition(":")[0].partition(".")[0].strip()


def _text(packages: Mapping[str, Package]) -> str:
    lines = ["# Written by: kvframe plugins lock"]
    for name, package in sorted(packages.items()):
        quoted = msgspec.json.encode(package.version).decode()
        lines += [
            "",
            f'[packages."{name}"]',
            f"version = {quoted}",
            "",
            f'[packages."{name}".modules]',
        ]
        lines += [f'"{module}" = "{sum_}"' for module, sum_ in sorted(package.modules.items())]
    return "\n".join(lines) + "\n"
