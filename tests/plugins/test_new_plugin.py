"""``kvframe new-plugin``: what it writes, and what it refuses.

That the package installs, passes its tests and runs is tried in tests/docs/test_tutorial.py.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kvframe
from kvframe.cli import main
from kvframe.scaffold import forms


def new(*args: object) -> Result:
    return CliRunner().invoke(main, ["new-plugin", *map(str, args)])


@pytest.mark.parametrize(("kind", "way"), forms())
@pytest.mark.parametrize("name", ["deep-first", "kvframe-deep-first", "none", "x2"])
def test_the_package_is_whole(tmp_path: Path, kind: str, way: str, name: str) -> None:
    result = new(name, "--kind", kind, "--way", way, "--path", tmp_path)
    assert result.exit_code == 0, result.output
    policy = name.removeprefix("kvframe-")
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"kvframe-{policy}"
    files = {path.relative_to(tmp_path).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {str(Path(line).relative_to(tmp_path)) for line in result.stdout.splitlines()} == files
    assert result.stderr.splitlines()[-1].strip() == f"kvframe bench check {policy}"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == folder.name
    assert project["entry-points"] == {f"kvframe.{kind}": {policy: folder.name.replace("-", "_")}}
    assert f"kvframe>={kvframe.__version__}" in project["dependencies"]
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert "$" not in text, f"{path} has a word left to fill in"
            assert text.endswith("\n")
        if path.suffix == ".py":
            ast.parse(text)
    assert {"README.md", "LICENSE", "src", "tests"} <= {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_what_it_writes_is_clean(tmp_path: Path) -> None:
    """Formatted, without lint, and typed, as kvframe itself is."""
    for number, (kind, way) in enumerate(forms()):
        made = new(f"deep-firs{number}", "--path", tmp_path, "--kind", kind, "--way", way)
        assert made.exit_code == 0
    config = Path(__file__).parents[2] / "pyproject.toml"
    sources = [str(path) for path in tmp_path.glob("*/src")]
    assert len(sources) == len(forms())
    for tool in (
        ["ruff", "format", "--check", "--config", config, tmp_path],
        ["ruff", "check", "--config", config, "--ignore", "D1,I", tmp_path],
        ["mypy", "--strict", "--no-incremental", "--config-file=", *sources],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, tool)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("kind", "way"), forms())
@pytest.mark.parametrize("name", ["deep-first", "second-visit"])
def test_imports_are_sorted(tmp_path: Path, kind: str, way: str, name: str) -> None:
    """As ruff has them in a package to which kvframe is one of others."""
    assert new(name, "--path", tmp_path, "--kind", kind, "--way", way).exit_code == 0
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "I", "."],
        cwd=tmp_path / f"kvframe-{name}",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "way"), forms())
def test_it_is_found_and_passes_its_tests(tmp_path: Path, kind: str, way: str) -> None:
    made = new("deep-first", "--path", tmp_path, "--kind", kind, "--way", way)
    assert made.exit_code == 0
    folder = tmp_path / "kvframe-deep-first"
    # What pip leaves behind; test_tutorial.py has it done by pip itself.
    info = folder / "src" / "kvframe_deep_first-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kvframe-deep-first\nVersion: 0.1.0\n"
    )
    (info / "entry_points.txt").write_text(f"[kvframe.{kind}]\ndeep-first = kvframe_deep_first\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    # A busy machine may break the budget of a decision, which is no fault of the template.
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert all("test_cost" in line for line in failed), done.stdout
    assert " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["Deep_First"], "name 'Deep_First': must be lower-case words joined by '-', a letter "),
        (["Deep_First"], "did you mean deep-first?"),
        (["2q-again"], "did you mean q-again?"),
        ([""], "name '': must be lower-case words"),
        (["all"], "name all: stands for every policy in `kvframe bench run --policy all`"),
        (["a/b"], "did you mean a-b?"),
        (["lru"], f"name lru: kvframe {kvframe.__version__} has an eviction policy of that name"),
        (
            ["hash", "--kind", "prefix"],
            f"name hash: kvframe {kvframe.__version__} has a prefix matcher of that name",
        ),
        (["t-lru"], "name t-lru: kvframe-tlru "),
        (["deep", "--kind", "evicton"], "--kind evicton: must be one of "),
        (["deep", "--kind", "evicton"], "did you mean eviction?"),
        (["deep", "--way", "bached"], "--way bached: for eviction it must be one of "),
    ],
)
def test_a_bad_wish_is_refused_in_a_line(tmp_path: Path, args: list[str], words: str) -> None:
    result = new(*args, "--path", tmp_path)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert words in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["eviction", "admission"])
def test_a_policy_may_be_called_as_its_kind(tmp_path: Path, kind: str) -> None:
    """Its class is then called as the descriptor is."""
    assert new(kind, "--kind", kind, "--path", tmp_path).exit_code == 0
    code = f"import kvframe_{kind} as made; (one,) = made.kvframe_{kind}(); print(one.name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / f"kvframe-{kind}" / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{kind}\n", done.stderr


def test_what_is_to_be_done_next_can_be_pasted(tmp_path: Path) -> None:
    parent = tmp_path / "it's my work"
    parent.mkdir()
    install, test, check = new("deep", "--path", parent).stderr.splitlines()[1:]
    folder = str(parent / "kvframe-deep")
    assert shlex.split(install) == ["pip", "install", "-e", f"{folder}[test]"]
    assert shlex.split(test) == ["python", "-m", "pytest", folder]
    assert shlex.split(check) == ["kvframe", "bench", "check", "deep"]


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kvframe-deep" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    result = new("deep", "--path", tmp_path)
    assert result.exit_code == 2
    assert f"{kept.parent}: exists already" in result.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["kvframe-deep", "notes.txt"]


def test_a_parent_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = new("deep", "--path", tmp_path / "none")
    assert result.exit_code == 2
    assert "none: no such folder" in result.stderr
