"""The package where it is used: named in a file, in the bench, and not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import kvframe
from kvframe.cli import main

TOML = """\
[cache]
block_size = 4
capacity = 6

[eviction]
policy = "t-lru"
on_error = "raise"

[eviction.options]
threshold = 6
next_prompt_estimate = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kvframe.toml"
    path.write_text(TOML)
    return path


def test_kvframe_plugins_shows_it() -> None:
    rows = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).stdout)
    (row,) = (row for row in rows if row["name"] == "t-lru")
    assert (row["kind"], row["way"], row["state"]) == ("eviction", "batched", "ok")
    assert row["distribution"] == "kvframe-tlru"
    assert row["version"] == metadata.version("kvframe-tlru")


def test_a_file_names_it(file: Path) -> None:
    manager = kvframe.KVCacheManager.from_toml(file)

    def serve(first: int, tokens: int) -> None:
        grant = manager.allocate(np.arange(first, first + tokens))
        manager.commit(grant.seq, tokens)
        manager.release(grant.seq)

    def cached(first: int) -> int:
        return manager.lookup(np.arange(first, first + 17)).tokens

    serve(0, 12)
    serve(100, 8)
    serve(200, 8)
    # Two blocks are wanted and one is free. The oldest tail goes, for 4 tokens are soon computed.
    assert (cached(0), cached(100), cached(200)) == (8, 8, 8)
    # Now what is left of it would cost 8. The next tail goes, though it was used later.
    serve(300, 4)
    assert (cached(0), cached(100), cached(200)) == (8, 4, 8)
    manager.check_integrity()


def test_generated_tokens_count_as_the_conversation_they_are(tmp_path: Path) -> None:
    path = tmp_path / "kvframe.toml"
    path.write_text(TOML.replace("threshold = 6", "threshold = 9"))
    manager = kvframe.KVCacheManager.from_toml(path, cache={"capacity": 8})
    asked, answered = manager.allocate(np.arange(17)), manager.allocate(np.arange(100, 108))
    manager.commit(asked.seq, 17)
    manager.release(asked.seq)
    manager.commit(answered.seq, 8)
    manager.append(answered.seq, np.arange(108, 116))
    manager.commit(answered.seq, 16)
    manager.release(answered.seq)
    # Two safe blocks of the answer die, one of the older prompt, and then the older prompt's next.
    manager.allocate(np.arange(200, 213))
    assert manager.lookup(np.arange(18)).tokens == 8
    assert manager.lookup(np.arange(100, 117)).tokens == 8


def replay(*args: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["bench", "run", *map(str, args), "--format", "json"])
    assert result.exit_code == 0, result.stderr
    cells: list[dict[str, Any]] = json.loads(result.stdout)["cells"]
    return cells


def test_the_bench_runs_it_as_a_plain_python_replay_does() -> None:
    # From a replay written apart from kvframe, with lengths in tokens and no memory of the evicted.
    full, window = replay("--policy", "t-lru,t-lru:window=64", "--capacity", 2000)
    assert (full["hit_tokens"], full["evictions"]) == (8_648_704, 257_599)
    assert window["hit_tokens"] == 8_138_752


def test_without_the_package_the_file_is_refused_with_help(file: Path, tmp_path: Path) -> None:
    """A site folder of links to all that is installed but this package."""
    site = tmp_path / "site"
    site.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "kvframe_tlru" not in entry.name:
            (site / entry.name).symlink_to(entry)
    source = Path(kvframe.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-S", "-c", "from kvframe.cli import main; main()", "check", str(file)],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{source}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f'{file}:6: eviction.policy = "t-lru": ' in line
    assert "no eviction policy t-lru" in line
    assert f"(kvframe {metadata.version('kvframe')})" in line
    assert (
        f"kvframe-tlru brings it; install it: {sys.executable} -m pip install kvframe-tlru" in line
    )
