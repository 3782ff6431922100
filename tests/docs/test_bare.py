"""A bare install runs the first blocks of every page that names no extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .pages import Block, blocks, commands

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "tutorial" / "serving.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]

BARRED = '''
"""Bars what a bare install does not bring."""
import sys

BARRED = {barred!r}


class Barred:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BARRED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Barred())
'''

MODULES = {
    "ml-dtypes": "ml_dtypes",
    "cupy-cuda12x": "cupy",
    "cupy-cuda13x": "cupy",
    "pyzmq": "zmq",
    "prometheus-client": "prometheus_client",
}
"""Where a package's module is not called as the package is."""


def barred() -> set[str]:
    """Modules of the extras that users choose, and of other optional packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    hard = {_package(text) for text in project["dependencies"]}
    extras = {
        _package(text)
        for name, texts in project["optional-dependencies"].items()
        if name != "dev"
        for text in texts
    }
    others = {"crc32c", "numba", "torch", "transformers", "redis", "mooncake", "vllm", "sglang"}
    return {MODULES.get(name, name) for name in extras - hard} | others


def _package(text: str) -> str:
    match = re.match(r"[\w-]+", text)
    assert match is not None
    return match[0]


def first(text: str) -> list[Block]:
    """The blocks up to the first that runs; none where they name an extra or another package."""
    chosen: list[Block] = []
    for block in blocks(text):
        chosen.append(block)
        if block.needs is not None:
            return []
        runs = block.language == "python" and block.file is None
        called = block.language in ("console", "bash", "sh") and any(
            command.text.startswith(("kvframe", "python")) for command in commands(block)
        )
        if runs or called:
            return chosen
    return []


RUN = """
import os, sys
from pathlib import Path
from tests.docs.test_bare import PAGES, first
from tests.docs.test_snippets import Page

for page in PAGES:
    folder = Path(sys.argv[1]) / page.stem
    folder.mkdir()
    os.chdir(folder)
    runner = Page(folder, page.name)
    for block in first(page.read_text()):
        runner.run(block)
"""


@pytest.mark.slow
@pytest.mark.scenario("F27")
def test_first_blocks_run_without_what_is_optional(tmp_path: Path) -> None:
    names = barred()
    assert {"ml_dtypes", "zstandard", "matplotlib"} <= names
    bar = tmp_path / "bar"
    bar.mkdir()
    (bar / "sitecustomize.py").write_text(BARRED.format(barred=names))
    path = os.pathsep.join([str(bar), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_most_pages_have_such_a_block() -> None:
    found = [page.name for page in PAGES if first(page.read_text())]
    assert {"README.md", "serving.md", "tiers.md", "slots.md", "retention.md"} <= set(found)
