"""The package where it is used: listed, checked, named in a file, in the bench."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner
from kvframe_hyperbolic import Options

import kvframe
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import ConfigError
from kvframe.testing import check_policy


def test_kvframe_plugins_shows_it() -> None:
    rows = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).stdout)
    (row,) = (row for row in rows if row["name"] == "hyperbolic")
    assert (row["kind"], row["way"], row["state"]) == ("eviction", "native", "ok")
    assert row["distribution"] == "kvframe-hyperbolic"
    assert row["version"] == metadata.version("kvframe-hyperbolic")


def test_it_keeps_what_kvframe_expects_of_a_policy() -> None:
    report = check_policy("hyperbolic")
    assert report.ok, [check for check in report.checks if check.verdict != "ok"]


def test_a_file_names_it(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text(
        "[cache]\nblock_size = 4\ncapacity = 8\n"
        '[eviction]\npolicy = "hyperbolic"\n[eviction.options]\nsample = 16\n'
    )
    assert Resolved.load(file, env={}).eviction.options == Options(sample=16)
    options = kvframe.KVCacheManager.from_toml(file).inspect.options()
    assert options["policy"] == "hyperbolic"
    assert options["window"] is None


@pytest.mark.parametrize("sample", [0, -1, 2**31 + 1])
def test_wrong_options_are_refused(sample: int) -> None:
    with pytest.raises(ConfigError, match=f"sample = {sample}"):
        Resolved.load(env={}, eviction={"policy": "hyperbolic", "options": {"sample": sample}})


def test_the_bench_runs_it() -> None:
    arguments = ["bench", "run", "--policy", "lru,hyperbolic", "--capacity", "8000"]
    result = CliRunner().invoke(main, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.stderr
    lru, ours = json.loads(result.stdout)["cells"]
    assert ours["hit_tokens"] > lru["hit_tokens"]
