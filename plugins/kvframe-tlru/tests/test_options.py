"""Options: defaults, limits, and the words in which a wrong one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kvframe_tlru import Options

import kvframe
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import ConfigError


def resolve(env: dict[str, str] | None = None, **options: Any) -> Resolved:
    eviction = {"policy": "t-lru", "options": options}
    return Resolved.load(env=env or {}, eviction=eviction)


def test_defaults() -> None:
    assert resolve().eviction.options == Options(threshold=8192, next_prompt_estimate=1024)


def test_environment_goes_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text('[eviction]\npolicy = "t-lru"\n[eviction.options]\nthreshold = 4096\n')
    name = "KVFRAME_EVICTION__OPTIONS__NEXT_PROMPT_ESTIMATE"
    resolved = Resolved.load(file, env={name: "64"})
    assert resolved.eviction.options == Options(threshold=4096, next_prompt_estimate=64)
    assert resolved.provenance["eviction.options.threshold"] == f"{file}:4"
    assert resolved.provenance["eviction.options.next_prompt_estimate"] == f"env {name}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"threshold": -1},
            "eviction.options.threshold = -1: must be between 0 and 4294967295",
        ),
        ({"threshold": "much"}, 'threshold = "much": must be a whole number between 0 and'),
        (
            {"next_promt_estimate": 9},
            "unknown key; did you mean eviction.options.next_prompt_estimate?",
        ),
        (
            {"threshold": 1024},
            "threshold = 1024 must be above next_prompt_estimate = 1024",
        ),
        ({"threshold": 0, "next_prompt_estimate": 0}, "threshold = 0 must be above"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    eviction = {"policy": "t-lru", "options": options}
    with pytest.raises(ConfigError):
        kvframe.KVCacheManager.from_toml(eviction=eviction)


def test_the_bench_checks_them_too() -> None:
    result = CliRunner().invoke(main, ["bench", "run", "--policy", "t-lru:threshold=1"])
    assert result.exit_code == 2
    assert "threshold = 1 must be above next_prompt_estimate = 1024" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_editors_are_told_of_them() -> None:
    result = CliRunner().invoke(main, ["check", "--schema"])
    assert result.exit_code == 0

    rules = json.loads(result.stdout)["$defs"]["EvictionConfig"]["allOf"]
    named = {rule["if"]["properties"]["policy"]["const"]: rule["then"] for rule in rules}
    schema = named["t-lru"]["properties"]["options"]
    assert list(schema["properties"]) == ["threshold", "next_prompt_estimate"]
    assert all(option["description"] for option in schema["properties"].values())
