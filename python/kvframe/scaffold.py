"""A new plugin package from a template: what ``kvframe new-plugin`` writes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from kvframe._core import __version__
from kvframe.errors import UsageError
from kvframe.registry import Registry
from kvframe.registry.descriptors import Kind
from kvframe.spelling import did_you_mean

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PREFIX = "kvframe-"
_SUFFIX = ".tmpl"


@dataclass(frozen=True)
class Package:
    """What was written: the folder, and its files by their paths inside it."""

    folder: Path
    files: tuple[str, ...]
    name: str


def forms() -> list[tuple[str, str]]:
    """Kinds and ways that there is a template for."""
    names = [entry.name for entry in _templates().iterdir() if entry.is_dir()]
    pairs = [name.partition("-") for name in names if "-" in name]
    return sorted((kind, way) for kind, _, way in pairs)


def new_plugin(name: str, kind: str, way: str, parent: Path) -> Package:
    """Write a package that installs, passes its tests and runs.

    Args:
        name: The policy's; the distribution is called ``kvframe-NAME``.
        kind: ``eviction``, or another of `forms`.
        way: ``batched``, or another of `forms`.
        parent: The folder in which the package's own is made.

    Raises:
        UsageError: A name that no package can have or that is taken, no such template, or the
            folder exists. Nothing was written.
    """
    policy = _checked(name.removeprefix(_PREFIX), kind, way)
    folder = parent / f"{_PREFIX}{policy}"
    if folder.exists():
        raise UsageError(f"{folder}: exists already; move it away, or name another --path")
    if not parent.is_dir():
        raise UsageError(f"--path {parent}: no such folder")
    class_name = "".join(word.capitalize() for word in policy.split("-")) + "Policy"
    words = {
        "name": policy,
        "distribution": folder.name,
        "module": folder.name.replace("-", "_"),
        "policy": class_name,
        "sorted": ", ".join(sorted([class_name, "Options"])),
        "kvframe": __version__,
    }
    files = {
        path.replace("MODULE", words["module"]): Template(text).substitute(words)
        for path, text in _read(_templates() / f"{kind}-{way}")
    }
    _write(folder, files)
    return Package(folder, tuple(files), policy)


def _checked(policy: str, kind: str, way: str) -> str:
    if not _NAME.fullmatch(policy):
        mended = re.sub(r"[^a-z0-9]+", "-", policy.lower()).strip("-0123456789")
        hint = f"; did you mean {mended}?" if _NAME.fullmatch(mended) else ""
        raise UsageError(
            f"name {policy!r}: must be lower-case words joined by '-', a letter first{hint}"
        )
    if policy == "all":
        raise UsageError("name all: stands for every policy in `kvframe bench run --policy all`")
    known = forms()
    if (kind, way) not in known:
        kinds = sorted({kind for kind, _ in known})
        if kind not in kinds:
            raise UsageError(
                f"--kind {kind}: must be one of {', '.join(kinds)}{did_you_mean(kind, kinds)}"
            )
        ways = [found for of, found in known if of == kind]
        raise UsageError(
            f"--way {way}: for {kind} it must be one of {', '.join(ways)}{did_you_mean(way, ways)}"
        )
    of_kind: Kind = kind  # type: ignore[assignment] # it names a template
    for found in Registry().candidates(of_kind):
        if found.name == policy:
            what = "a prefix matcher" if kind == "prefix" else f"an {kind} policy"
            raise UsageError(f"name {policy}: {found.origin} has {what} of that name; take another")
    return policy


def _templates() -> Traversable:
    return resources.files("kvframe") / "templates"


def _read(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _read(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{above}{entry.name.removesuffix(_SUFFIX)}", entry.read_text("utf-8")


def _write(folder: Path, files: dict[str, str]) -> None:
    """All files or none: into a folder beside it, then renamed."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
            made = Path(scratch) / folder.name
            for path, text in files.items():
                file = made / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
            made.rename(folder)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
