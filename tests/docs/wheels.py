"""Wheels of what is installed here, so that a clean environment needs no network."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kvframe


def wheelhouse(folder: Path, *names: str) -> None:
    """Write into ``folder`` a wheel of each distribution named, and of all that these need."""
    waiting, done = list(names), set[str]()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in done:
            continue
        done.add(name)
        distribution = metadata.distribution(name)
        _pack(distribution, folder)
        waiting += [
            needed.name
            for needed in map(Requirement, distribution.requires or ())
            if needed.marker is None or needed.marker.evaluate({"extra": ""})
        ]


def _pack(distribution: metadata.Distribution, folder: Path) -> None:
    name = canonicalize_name(distribution.name).replace("-", "_")
    about = distribution.read_text("WHEEL") or ""
    tag = next(line[5:] for line in about.splitlines() if line.startswith("Tag: "))
    info = f"{name}-{distribution.version}.dist-info"
    files = dict(_files(distribution))
    for kept in ("METADATA", "WHEEL", "entry_points.txt"):
        text = distribution.read_text(kept)
        if text is not None:
            files[f"{info}/{kept}"] = text.encode()
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files).encode()
    with zipfile.ZipFile(folder / f"{name}-{distribution.version}-{tag}.whl", "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)


def _files(distribution: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    """Its modules and data by their paths in the wheel."""
    if distribution.name == "kvframe":
        # Installed for editing, it holds no file; as installed from a wheel, it is this folder.
        package = Path(kvframe.__file__).parent
        paths = {path.relative_to(package.parent).as_posix(): path for path in package.rglob("*")}
    else:
        paths = {str(file): Path(str(file.locate())) for file in distribution.files or ()}
    for name, path in paths.items():
        ours = not name.startswith("..") and ".dist-info/" not in name
        if ours and "__pycache__" not in name and path.is_file():
            yield name, path.read_bytes()
