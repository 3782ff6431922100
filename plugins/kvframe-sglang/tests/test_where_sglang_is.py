"""The tests of this folder by another Python, where that has SGLang: $SGLANG_PYTHON."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1]
TESTS = (
    "tests/test_server.py",
    "tests/test_streams.py",
    "tests/test_core.py",
    "tests/test_loose.py",
)


def test_they_pass_there(tmp_path: Path) -> None:
    if importlib.util.find_spec("sglang") is not None:
        pytest.skip("they run here")
    if not (python := os.environ.get("SGLANG_PYTHON")):
        pytest.skip("no Python that has SGLang: set SGLANG_PYTHON")
    # The other Python finds kvframe by its path: what pip wrote of it has to go along.
    for name in ("kvframe", "kvframe-sglang"):
        metadata = Path(str(importlib.metadata.distribution(name).locate_file(""))).glob(
            f"{name.replace('-', '_')}-*.dist-info"
        )
        for folder in metadata:
            shutil.copytree(folder, tmp_path / folder.name)
    path = os.pathsep.join(map(str, (FOLDER / "src", FOLDER.parents[1] / "python", tmp_path)))
    done = subprocess.run(
        [
            *(python, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-c", os.devnull, "--rootdir", str(FOLDER), *TESTS),
        ],
        cwd=FOLDER,
        # SGLang compiles the hashes of its events with the ninja beside its Python.
        env=os.environ
        | {
            "PYTHONPATH": path,
            "PATH": os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
