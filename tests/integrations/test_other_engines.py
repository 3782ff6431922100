"""Every built-in policy inside the plug points of vLLM, SGLang and LMCache, on their own code.

Each runs where a variable names an interpreter that has the package: VLLM_PYTHON, SGLANG_PYTHON,
LMCACHE_PYTHON. kvframe itself is lent to it; click, msgspec, numpy and pluggy must be there.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

import kvframe
from kvframe.registry import Registry

HERE = Path(__file__).parent
POLICIES = [
    row.name
    for row in Registry().list()
    if row.kind == "eviction"
    and row.way == "builtin"
    and not Registry().eviction(row.name).descriptor.replay_only
]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "lmcache"])
def test_the_engine_runs_every_policy(engine: str, tmp_path: Path) -> None:
    python = os.environ.get(variable := f"{engine.upper()}_PYTHON")
    if not python:
        pytest.skip(f"no Python that has {engine}: set {variable}")
    found = importlib.metadata.distribution("kvframe")
    told = next(file for file in found.files or [] if file.name == "METADATA")
    (tmp_path / "kvframe-0.dist-info").symlink_to(Path(str(found.locate_file(told))).parent)
    path = os.pathsep.join([str(Path(kvframe.__file__).parents[1]), str(tmp_path)])
    done = subprocess.run(
        [python, str(HERE / engine / "work.py"), *POLICIES],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "DIFFERS" not in done.stdout
    assert len([line for line in done.stdout.splitlines() if "ran" in line or "own" in line]) >= (
        len(POLICIES)
    )
