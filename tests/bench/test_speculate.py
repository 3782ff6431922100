"""Drafted answers: what `--speculate` can say, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvframe.bench.server.cards import Card
from kvframe.bench.server.speculation import parse_speculation
from kvframe.cli import main
from kvframe.errors import ConfigError

ROUNDS = "commits,category,a0,a1\n2,chat,0.9,0.8\n0,code,0.5,0.1\n"
STEPS = "batch_size,num_draft_tokens,step_seconds\n1,1,0.5\n1,3,0.7\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "rounds.csv").write_text(ROUNDS)
    (tmp_path / "steps.csv").write_text(STEPS)
    row = {"timestamp": 0, "input_length": 400, "output_length": 31, "hash_ids": [1]}
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cell(speculate: str) -> dict[str, Any]:
    asked = ["--trace", "t.jsonl", "--capacity", "4", "--policy", "lru", "--format", "json"]
    done = CliRunner().invoke(main, ["bench", "serve", *asked, "--speculate", speculate])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)["cells"][0]
    return found


def test_places_rounds_and_measured_steps_reach_the_server(folder: Path) -> None:
    each = cell("tokens=2,accept=1")
    assert (each["steps"], each["wrong_drafts"]) == (11, 0)
    # Of two, the first is always right: two tokens a step.
    places = cell("tokens=2,accept=1/0")
    assert (places["steps"], places["decode_tokens"]) == (16, 30)
    (folder / "rounds.csv").write_text("commits,a0,a1\n1,1,0\n")
    assert cell("tokens=2,accept=rounds.csv")["steps"] == 16
    # The drafter is sure of the first one alone, and every policy goes by that.
    for policy in ("gated-budget", "gated-aggregate", "goodput-budget"):
        gated = cell(f"tokens=2,accept=rounds.csv,policy={policy}")
        assert (gated["steps"], gated["wrong_drafts"]) == (16, 0)
    measured = cell("tokens=2,accept=1,measured=steps.csv")
    # Two drafts each in all steps but the first.
    assert measured["itl_mean"] == pytest.approx(10 * 0.7 / 30, rel=1e-3)
    # A step of 0.5 s for one token, or 0.7 s for one and a tenth.
    few = cell("tokens=2,accept=0.1/0,policy=goodput-budget,measured=steps.csv")
    assert (few["steps"], few["wrong_drafts"]) == (31, 0)


def test_a_drafter_is_read_and_computed_on_the_card() -> None:
    card = Card("small", memory=1.0, bandwidth=100.0, flops=1000.0)
    text = "tokens=3,accept=0.5,dense_params=10,expert_params=5,experts=8,experts_used=2"
    passes = parse_speculation(f"{text},shared_experts=1").table(card, 2)["passes"]
    assert passes == (2 * (10 + 3 * 5) / 2000, 2 * 10 / 200, 2 * 5 / 200, 8, 2, 1)
    block = parse_speculation("tokens=3,accept=0.5,block_params=10,block=4").table(card, 1)["block"]
    assert block == (2 * 10 * 4 / 1000, 2 * 10 / 100)
    switch = "policy=gated-aggregate,cooldown=4,max_step=1,switch_cost=2ms"
    assert parse_speculation(f"tokens=3,accept=0.5,{switch}").switch == (4, 1, 0.002)


def test_drafters_and_switches_take_time(folder: Path) -> None:
    free = cell("tokens=2,accept=0.5")
    for drafter in ("dense_params=1e9", "block_params=1e9,block=8", "cost=0.1"):
        assert cell(f"tokens=2,accept=0.5,{drafter}")["itl_mean"] > free["itl_mean"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokens=2,accept=0.5/x", "accept = x: must be a number from 0 to 1"),
        ("tokens=2,accept=none.csv", "accept = none.csv: No such file"),
        ("tokens=2,accept=steps.csv", "steps.csv:1: must have the columns commits, a0, a1"),
        ("tokens=2,accept=1,measured=rounds.csv", "rounds.csv:1: must have the columns batch_size"),
        ("tokens=2,accept=1,measured=bad.csv", "bad.csv:2: step_seconds = 0: must be above 0"),
        ("tokens=2,accept=bad.csv", "bad.csv:1: must have the columns commits"),
        ("tokens=2,accept=short.csv", "short.csv:2: 1 cells, and 2 columns"),
        ("tokens=2,accept=wrong.csv", "wrong.csv:2: a0 = 2: must be a number from 0 to 1"),
        ("tokens=2,accept=1,policy=goodput", "did you mean goodput-budget"),
        ("tokens=2,accept=1,cooldown=2", "cooldown: goes with policy=gated-aggregate"),
        ("tokens=2,accept=1,experts=2", "experts: goes with dense_params"),
        ("tokens=2,accept=1,block=2", "block: goes with block_params"),
        ("tokens=2,accept=1,block_params=2", "block_params: goes with block"),
        ("tokens=2,accept=1,context=2", "context: goes with measured"),
        ("tokens=2,accept=1,cost=1,dense_params=1", "cost and dense_params: one drafter has one"),
        ("tokens=2,accept=1,dense_params=-1", "dense_params = -1: must be a number, 0 or more"),
        (
            "tokens=2,accept=1,policy=gated-aggregate,max_step=0",
            "max_step = 0: must be a whole number from 1 to 64",
        ),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, text: str, message: str) -> None:
    (folder / "bad.csv").write_text("batch_size,num_draft_tokens,step_seconds\n1,1,0\n")
    (folder / "short.csv").write_text("commits,a0\n1\n")
    (folder / "wrong.csv").write_text("commits,a0\n1,2\n")
    with pytest.raises(ConfigError) as refused:
        parse_speculation(text)
    assert message in str(refused.value)
