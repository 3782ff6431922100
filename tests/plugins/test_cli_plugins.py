"""``kvframe plugins`` as a script sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from kvframe.cli import main

FIELDS = ["name", "kind", "way", "distribution", "version", "state", "source"]


def test_json_is_a_list_of_objects(install: Callable[..., object]) -> None:
    install("good", "misspelt")
    result = CliRunner().invoke(main, ["plugins", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    rows = json.loads(result.stdout)
    assert all(list(row) == FIELDS for row in rows)
    assert {"name": "good", "kind": "admission"}.items() <= next(
        row for row in rows if row["name"] == "good" and row["kind"] == "admission"
    ).items()
    broken = next(row for row in rows if row["name"] == "misspelt")
    assert (broken["kind"], broken["way"], broken["source"]) == ("eviction", None, None)


def test_what_a_plugin_prints_is_no_data(install: Callable[..., Path]) -> None:
    module = install("good") / "kvframe_good.py"
    module.write_text(f"{module.read_text()}\nprint('imported')\n")
    result = CliRunner().invoke(main, ["plugins", "--json"])
    assert "good" in {row["name"] for row in json.loads(result.stdout)}
    assert result.stderr == "imported\n"


def test_table_has_a_row_for_each_policy(install: Callable[..., object]) -> None:
    install("good")
    lines = CliRunner().invoke(main, ["plugins"]).stdout.splitlines()
    assert lines[0].split() == FIELDS
    assert lines[1].split()[:4] == ["lru", "eviction", "builtin", "kvframe"]
    assert any(line.split()[:3] == ["good", "eviction", "batched"] for line in lines)


def test_the_packages_of_this_repository_are_listed() -> None:
    rows = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).stdout)
    assert sum(row["kind"] == "eviction" for row in rows) >= 25
    assert {row["way"] for row in rows} >= {"builtin", "batched", "native"}
    assert {row["kind"] for row in rows} == {"eviction", "admission", "prefix", "store"}
    assert len({row["distribution"] for row in rows}) >= 5
