"""The microbenchmarks run and print what others read; how fast is no matter of a test."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
WORKS = (
    "get_free_64",
    "get_free_64_evicting",
    "hash_32k_sha256",
    "hash_32k_fast",
    "admit_commit_free",
    "admit_commit_free_sha256",
    "decode_step_256",
    "bytes_per_block",
)


Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What ``python -m`` with its arguments prints as JSON."""

    def printed(module: str, *arguments: str) -> Any:
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, "argv", [module, *arguments, "--json"])
        assert importlib.import_module(module).main() == 0
        return json.loads(capsys.readouterr().out)

    return printed


@pytest.fixture(autouse=True)
def no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in ("VLLM", "DYNAMO", "SGLANG"):
        monkeypatch.delenv(f"{peer}_PYTHON", raising=False)


def test_core_prints_every_work(run: Run) -> None:
    rows = run("perf.core", "--quick", "--rounds", "1")
    assert {row["work"] for row in rows} >= set(WORKS)
    for row in rows:
        assert list(row) == [
            *("work", "unit", "better", "kvframe"),
            *("bar", "peer", "peer_value", "floor"),
        ]
        assert row["better"] in ("lower", "higher")
        assert min(row["kvframe"], row["bar"], row["floor"]) > 0
        assert (row["peer"], row["peer_value"]) == (None, None)


def test_core_measures_only_what_is_asked(run: Run) -> None:
    rows = run("perf.core", "--quick", "--rounds", "1", "--only", "get_free_64")
    assert [row["work"] for row in rows] == ["get_free_64"]


def test_a_peer_that_does_not_start_is_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PYTHON", "/no/such/python")
    rows = run("perf.core", "--quick", "--rounds", "1", "--only", "get_free_64")
    assert [row["peer"] for row in rows] == [None]


def test_replay_prints_speeds(run: Run) -> None:
    printed = run(
        *("perf.replay", "--no-peer", "--rounds", "1", "--more", "1"),
        *("--trace", "synthetic", "--policy", "lru", "--capacity", "500"),
    )
    assert [row["capacity_blocks"] for row in printed["rows"]] == [500, None]
    assert printed["parse"]["kvframe"] > 0


def test_policies_prints_costs_and_rates(run: Run) -> None:
    printed = run("perf.policies", "--quick", "--rounds", "1", "--trace", "synthetic")
    costs = {row["policy"]: row["us_an_admission"] for row in printed["costs"]}
    assert {"builtin lru", "builtin foresight", "batched, window 256", "batched, all"} <= set(costs)
    assert min(costs.values()) > 0
    for row in printed["rates"]:
        assert row["window_0"] == row["lfu"]
    for row in printed["replays"]:
        assert 0 < row["calls_a_request"] < 1
        assert row["lru_requests_a_second"] > row["batched_requests_a_second"] > 0


def test_price_prints_what_foresight_costs_beside_lru(run: Run) -> None:
    printed = run("perf.price", "--quick", "--rounds", "1")
    for row in printed["victims"]:
        assert (
            min(
                row[f"{policy}_{what}"]
                for policy in ("lru", "foresight")
                for what in ("64", "first")
            )
            > 0
        )
    assert {row["trace"] for row in printed["replays"]} == {"conversation", "synthetic", "agent"}


def test_steps_prints_what_a_scheduler_step_costs(run: Run) -> None:
    (row,) = run("perf.steps", "--quick", "--rounds", "1")
    assert min(row["steps_per_s"], row["median_us"], row["p99_us"]) > 0
    assert all(row["did"][what] > 0 for what in ("admitted", "ended", "cut", "forked", "preempted"))


def test_native_prints_every_form(run: Run) -> None:
    rows = run("perf.native", "--quick", "--rounds", "1")
    assert [row["policy"] for row in rows][:3] == [
        *("builtin lru", "builtin lfu", "native lru, own order"),
    ]
    assert all(row["ns_a_block"] > 0 for row in rows)


def test_tiers_prints_what_a_store_reaches() -> None:
    few = ["--store", "disk", "--pages", "3", "--rounds", "2"]
    command = [sys.executable, "-m", "perf.tiers", *few]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    name, *speeds = ran.stdout.splitlines()[2].split()[:5]
    assert name == "disk"
    assert min(map(float, speeds)) > 0
