"""The result directory: what it records, what it gives back, what it does not."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvframe import EvictionPolicy
from kvframe.bench.named import source_hash
from kvframe.registry import Loaded

from .conftest import SMALL, Command

Cells = Callable[..., list[dict[str, Any]]]


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "results" / "cells").iterdir())


def test_the_record_names_what_the_numbers_depend_on(
    process: Command, small: Path, tmp_path: Path
) -> None:
    done = process("run", "--trace", small, "--policy", "lru,slru", "--capacity", "2,3",
                   "--out", "results", "--seed", "7", "--format", "json")  # fmt: skip
    got = json.loads(done.stdout)["cells"]
    record = json.loads((tmp_path / "results" / "run.json").read_bytes())
    assert record["state"] == "finished"
    assert record["seed"] == 7
    assert record["command"][1:3] == ["bench", "run"]
    assert set(record["policies"]) == {"lru", "slru"}
    assert record["policies"]["lru"].startswith("kvframe ")
    assert record["core_profile"] in ("release", "debug")
    assert record["machine"]["cores"] >= 1
    assert record["machine"]["python"].startswith("CPython 3.")
    assert record["date"].endswith("+00:00")
    (trace,) = record["traces"].values()
    assert len(trace["sha256"]) == 64
    assert json.loads((tmp_path / "results" / "results.json").read_bytes())["cells"] == got
    assert len(kept(tmp_path)) == 4
    assert not list((tmp_path / "results").rglob(".*"))


def test_kept_cells_are_found_by_content_not_by_name(
    cells: Cells, small: Path, tmp_path: Path
) -> None:
    asked = ("--policy", "lru", "--capacity", "2", "--out", "results")
    (first,) = cells("--trace", small, *asked)
    (tmp_path / "renamed.jsonl").write_bytes(SMALL)
    (again,) = cells("--trace", "renamed.jsonl", *asked)
    assert again == first | {"trace": "renamed.jsonl"}
    (tmp_path / "renamed.jsonl").write_bytes(SMALL + SMALL[:0] + SMALL.splitlines()[-1] + b"\n")
    (other,) = cells("--trace", "renamed.jsonl", *asked)
    assert other["requests"] == 5


def test_another_mode_option_or_capacity_is_another_cell(
    cells: Cells, small: Path, tmp_path: Path
) -> None:
    common = ("--trace", small, "--out", "results")
    cells(*common, "--policy", "slru", "--capacity", "2")
    # The default, spelled out, is the same cell.
    cells(*common, "--policy", "slru:protected_uses=2", "--capacity", "2")
    assert len(kept(tmp_path)) == 2, "lru beside it, for the verdict"
    cells(*common, "--policy", "slru:protected_uses=3", "--capacity", "2")
    assert len(kept(tmp_path)) == 3
    cells(*common, "--policy", "slru", "--capacity", "3")
    cells(*common, "--policy", "slru", "--capacity", "2", "--mode", "trace")
    assert len(kept(tmp_path)) == 7


def test_a_damaged_cell_is_run_again(bench: Command, small: Path, tmp_path: Path) -> None:
    asked = ("run", "--trace", small, "--policy", "lru", "--capacity", "2", "--format", "json",
             "--out", "results")  # fmt: skip
    bench(*asked)
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    for damage in (b"", whole[:50], whole.replace(b'"lru"', b'"opt"')):
        path.write_bytes(damage)
        done = bench(*asked)
        assert done.returncode == 0
        assert "taken from" not in done.stderr
        assert json.loads(path.read_bytes())["cell"]["policy"] == "lru"
    assert "1 of 1 cells taken from results" in bench(*asked).stderr


def test_code_that_changes_is_another_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python, or compiled beside it; a function of no module is of none."""
    package = tmp_path / "kvframe_compiled"
    package.mkdir()
    (package / "__init__.py").write_text("def make(options): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    make = importlib.import_module("kvframe_compiled").make

    def hashed(make: Callable[[Any], object]) -> str:
        policy = EvictionPolicy(name="mine", way="native", summary="", make=make)
        return source_hash(Loaded(policy, "mine", "1", "mine"))

    seen = [hashed(make)]
    for name in ("policy.so", "notes.txt", "inner.py"):
        (package / name).write_bytes(b"1")
        seen.append(hashed(make))
    assert seen[1] == seen[2]
    assert len(set(seen)) == 3
    assert hashed([].append) == ""
