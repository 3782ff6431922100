"""Another engine's interpreter, named by a variable, with kvframe lent to it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

import kvframe
from kvframe.native import include_dir

from ..native.helpers import compiler

HERE = Path(__file__).parent
PLUGINS = HERE.parents[1] / "plugins"
GUESTS = ["guest-batched", "guest-column", "guest-order"]
"""Of a package that is installed beside kvframe: lru in Python, and compiled twice."""


class Peer:
    """Runs commands in the environment of an engine; skips where none is named.

    Args:
        engine: ``vllm``, ``sglang`` or ``lmcache``: the variable is called ENGINE_PYTHON.
        folder: Where it runs; what kvframe is installed as is put there.
        plugins: Packages of this repository that it has besides.
    """

    def __init__(self, engine: str, folder: Path, *plugins: str) -> None:
        python = os.environ.get(variable := f"{engine.upper()}_PYTHON")
        if not python:
            pytest.skip(f"no Python that has {engine}: set {variable}")
        self.python, self.folder = python, folder
        self.path = [str(Path(kvframe.__file__).parents[1]), str(folder)]
        for name in ("kvframe", *plugins):
            found = importlib.metadata.distribution(name)
            told = next(file for file in found.files or [] if file.name == "METADATA")
            link = folder / f"{name.replace('-', '_')}-0.dist-info"
            link.symlink_to(Path(str(found.locate_file(told))).parent)
            self.path.append(str(PLUGINS / name / "src"))

    def run(
        self, *arguments: str, cwd: Path | None = None, path: tuple[Path, ...] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Python with these arguments; ``path`` is looked for modules first."""
        return subprocess.run(
            [self.python, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([*map(str, path), *self.path]),
                "PYTHONDONTWRITEBYTECODE": "1",
                **env,
            },
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            timeout=580,
            check=False,
        )


def guest(folder: Path) -> tuple[Path, Path]:
    """Installs `kvframe_guest` for a peer; the folder to look in, and the compiled library."""
    info = folder / "kvframe_guest-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kvframe-guest\nVersion: 2.0\n")
    points = "".join(f"{name} = kvframe_guest\n" for name in GUESTS)
    (info / "entry_points.txt").write_text(f"[kvframe.eviction]\n{points}")
    library = folder / "lru.so"
    source = HERE.parent / "native" / "lru.c"
    build = [compiler(), "-std=c11", "-O2", "-shared", "-fPIC", f"-I{include_dir()}"]
    subprocess.run([*build, str(source), "-o", str(library)], check=True)
    return HERE / "guest", library
