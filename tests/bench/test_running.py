"""A run in parts: sweeps, shards, threads, a cluster, and one that is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvframe.bench import sweep
from kvframe.bench.cells import Cell
from kvframe.bench.results import read_cells
from kvframe.bench.run import Outcome
from kvframe.bench.shards import parse
from kvframe.errors import ConfigError

from .conftest import KVFRAME, Command
from .made import ran, write

SWEEP = """
trace = "made.jsonl"
policy = ["lru", { name = "slru", protected_uses = [2, 3] }]
capacity = ["40:160:x2", "10%"]
mode = ["engine", "timed"]
block-factor = [1, 2]
load = [0.5, 1]
arrival-seed = [0, 1, 2]
"""


def bare(cell: Cell) -> dict[str, Any]:
    """A cell without what depends on the machine."""
    return msgspec.structs.asdict(msgspec.structs.replace(cell, seconds=0, prepare_seconds=0))


def bares(outcome: Outcome) -> list[dict[str, Any]]:
    return [bare(cell) for cell in outcome.cells.values()]


ASKED: dict[str, Any] = {"policies": "lru,fifo,mq", "capacities": "40,80,160", "modes": "engine"}


def test_numbers_go_with_commas_and_repeated(bench: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "made.jsonl", 9)
    told = bench(
        "run", "--trace", str(path), "--policy", "lru", "--capacity", "40", "--mode", "timed",
        "--arrival-seed", "0,1", "--arrival-seed", "2", "--load", "0.5, 1", "--format", "json",
        "--quiet",
    )  # fmt: skip
    seen = {(cell["load"], cell["arrival_seed"]) for cell in json.loads(told.stdout)["cells"]}
    assert seen == {(load, seed) for load in (0.5, 1.0) for seed in (0, 1, 2)}
    for text in ("0,x", "0,-1", "0,"):
        refused = bench("run", "--arrival-seed", text)
        assert refused.returncode == 2
        assert "Invalid value for '--arrival-seed'" in refused.stderr


def test_a_sweep_is_the_options_of_run(
    bench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "made.jsonl")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    fields = sweep.read(tmp_path / "sweep.toml")
    assert fields["policies"] == ["lru", "slru:protected_uses=2", "slru:protected_uses=3"]
    monkeypatch.chdir(tmp_path)
    _, outcome = ran(**fields, formats="json")
    policies, sizes, factors = 3, 4, 2
    engine = policies * sizes * factors
    assert len(outcome.cells) == engine + engine * 2 * 3
    loads = Counter((c.mode, c.load, c.arrival_seed) for c in outcome.cells.values())
    assert set(loads.values()) == {engine}
    assert {c.block_size for c in outcome.cells.values()} == {16, 32}
    # The command line goes before the file.
    done = bench("run", "sweep.toml", "--mode", "engine", "--capacity", "40", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "10 cells; " in done.stderr  # lru, two of slru, opt and infinite; twice
    assert "opt and its like keep 4 bytes a block access: 0 MB" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("polcy = 'lru'", "polcy: unknown; did you mean policy"),
        ("policy = [{ protected_uses = 2 }]", "a table needs a name"),
        ("load = 'fast'", "load"),
        ("load = 2.0", 'load: only timed mode goes by the clock: mode = "timed"'),
        ("mode = 'engine'\narrival-seed = [0, 1]", "arrival-seed: only timed mode"),
        ("[", "not TOML"),
    ],
)
def test_a_sweep_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"s\.toml") as caught:
        sweep.read(tmp_path / "s.toml")
    assert words in str(caught.value)


def test_shards_are_the_whole_once(tmp_path: Path) -> None:
    trace = str(write(tmp_path / "made.jsonl"))
    _, whole = ran(traces=trace, **ASKED)
    out = tmp_path / "kept"
    parts = [ran(traces=trace, **ASKED, out=out, shard=(i, 3))[1] for i in (1, 2, 3)]
    assert sum(len(part.cells) for part in parts) == len(whole.cells)
    assert all(part.reused == 0 for part in parts)
    _, again = ran(traces=trace, **ASKED, out=out)
    assert again.reused == len(whole.cells)
    assert bares(again) == bares(whole)
    for text in ("0/2", "3/2", "1", "a/b", "1/0"):
        with pytest.raises(ConfigError, match="--shard"):
            parse(text)


def test_jobs_change_no_cell(tmp_path: Path) -> None:
    trace = str(write(tmp_path / "made.jsonl"))
    (_, one), (_, two) = (ran(traces=trace, **ASKED, jobs=jobs) for jobs in (1, 2))
    assert bares(one) == bares(two)


@pytest.mark.slow
def test_a_cluster_changes_no_cell(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: kvframe[ray]")
    trace = str(write(tmp_path / "made.jsonl"))
    _, here = ran(traces=trace, **ASKED)
    out = tmp_path / "kept"
    done = subprocess.run(
        [KVFRAME, "bench", "run", "--trace", trace, "--policy", ASKED["policies"], "--capacity",
         ASKED["capacities"], "--executor", "ray", "--jobs", "2", "--out", out],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    there = {(c.policy, c.capacity_blocks): bare(c) for c in read_cells(str(out))}
    assert there == {(c["policy"], c["capacity_blocks"]): c for c in bares(here)}


def test_what_was_killed_is_not_computed_again(tmp_path: Path) -> None:
    asked = [
        str(KVFRAME), "bench", "run", "--policy", "lru,fifo,lfu,mq,sieve", "--capacity",
        "1000:8000:x2", "--out", str(tmp_path / "kept"), "--format", "json", "--quiet",
    ]  # fmt: skip
    cells = tmp_path / "kept" / "cells"
    killed = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while killed.poll() is None and (not cells.is_dir() or len(list(cells.glob("*.json"))) < 3):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert 3 <= len(before) < 20
    done = subprocess.run(asked, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(after) == 20
    assert before.items() <= after.items()
    assert len(json.loads(done.stdout)["cells"]) == 20
