"""Another engine's interpreter, named by a variable, with kvframe lent to it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

import kvframe

HERE = Path(__file__).parent


class Peer:
    """Runs commands in the environment of an engine; skips where none is named.

    Args:
        engine: ``vllm``, ``sglang`` or ``lmcache``: the variable is called ENGINE_PYTHON.
        folder: Where it runs; what kvframe is installed as is put there.
    """

    def __init__(self, engine: str, folder: Path) -> None:
        python = os.environ.get(variable := f"{engine.upper()}_PYTHON")
        if not python:
            pytest.skip(f"no Python that has {engine}: set {variable}")
        self.python, self.folder = python, folder
        found = importlib.metadata.distribution("kvframe")
        told = next(file for file in found.files or [] if file.name == "METADATA")
        (folder / "kvframe-0.dist-info").symlink_to(Path(str(found.locate_file(told))).parent)
        self.path = [str(Path(kvframe.__file__).parents[1]), str(folder)]

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
