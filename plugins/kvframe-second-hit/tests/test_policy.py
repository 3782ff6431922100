"""The policy: as the built-in second-use where the filters err not; in a file, in the bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from kvframe_second_hit import Options

import kvframe
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import ConfigError


def gated(policy: str, **options: Any) -> kvframe.KVCacheManager:
    admission = {"policy": policy, "on_error": "raise", "options": options}
    return kvframe.KVCacheManager(
        Resolved.load(env={}, cache={"block_size": 4, "capacity": 4096}, admission=admission)
    )


@pytest.mark.parametrize("seed", range(5))
def test_equals_second_use(seed: int) -> None:
    dice = np.random.default_rng(seed)
    mine, built_in = gated("second-hit", error=1e-6), gated("second-use")
    for _ in range(150):
        prompts = [dice.integers(0, 2, 4 * dice.integers(1, 5) + 1) for _ in range(2)]
        told = []
        for kv in (mine, built_in):
            grants = [kv.allocate(prompt) for prompt in prompts]
            seqs = [grant.seq for grant in grants]
            lengths = [grant.prompt_tokens for grant in grants]
            kv.step(commit=(seqs, lengths), release=seqs)
            kv.check_integrity()
            told.append([grant.cached_tokens for grant in grants])
        assert told[0] == told[1]
    assert all(kv.stats.counters()["admission_dropped"] > 20 for kv in (mine, built_in))
    assert mine.stats.counters()["hit_tokens"] > 0


def test_the_list_shows_it() -> None:
    rows = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).stdout)
    (row,) = (row for row in rows if row["name"] == "second-hit")
    assert (row["kind"], row["way"], row["state"]) == ("admission", "batched", "ok")
    assert row["distribution"] == "kvframe-second-hit"


def test_options_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text('[admission]\npolicy = "second-hit"\n[admission.options]\ncapacity = 9\n')
    env = {"KVFRAME_ADMISSION__OPTIONS__ERROR": "0.5"}
    assert Resolved.load(file, env=env).admission.options == Options(capacity=9, error=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "admission.options.capacity = 0: must be between 1 and"),
        ({"error": 1.0}, "admission.options.error = 1.0: must be"),
        ({"capacty": 1}, "did you mean admission.options.capacity?"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        gated("second-hit", **options)
    assert message in str(caught.value)


def test_the_bench_runs_it() -> None:
    command = ["bench", "run", "--policy", "lru", "--capacity", "2000", "--format", "json"]
    names = "second-hit,second-use:remember=16000000"
    result = CliRunner().invoke(main, [*command, "--admission", names])
    assert result.exit_code == 0, result.stderr
    mine, built_in = json.loads(result.stdout)["cells"]
    assert (mine["admission"], mine["policy"]) == ("second-hit", "lru+second-hit")
    assert mine["admission_dropped"] > 100_000
    assert mine["hit_tokens"] == pytest.approx(built_in["hit_tokens"], rel=0.02)
