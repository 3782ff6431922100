"""Fixtures for every test: plugin packages that look installed, and a clean environment."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy

import pytest

PACKAGES = Path(__file__).parent / "plugins" / "packages"


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: no garbage collection need look through them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_kvframe_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the caller's shell would be part of every configuration."""
    for name in [name for name in os.environ if name.startswith("KVFRAME_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's folder; modules that are imported from there end with the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {**sys.modules}
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name not in before and file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """``install("good", "broken_import")`` makes packages of tests/plugins/packages importable.

    Each gets what pip would write for it: its module, and a ``.dist-info`` with its entry points.
    Answers the folder, which is on `sys.path` till the test ends.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    modules: list[str] = []

    def put(*names: str) -> Path:
        for name in names:
            folder = PACKAGES / name
            project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
            )
            points = [
                f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
                for group, table in project["entry-points"].items()
            ]
            (info / "entry_points.txt").write_text("".join(points))
            for module in folder.glob("*.py"):
                copy(module, site)
                modules.append(module.stem)
        importlib.invalidate_caches()
        return site

    yield put
    for module in modules:
        sys.modules.pop(module, None)
