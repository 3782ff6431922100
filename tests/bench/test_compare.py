"""Two results side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvframe.bench.difference import Limit, compared, sentence
from kvframe.bench.results import read_cells, read_names, read_verdicts
from kvframe.errors import ConfigError

from .conftest import Command
from .made import ran, write


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A and B: the same cells, of which slru differs by an option; and a copy of A."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "made.jsonl", 300)
    (tmp_path / "policy.py").write_text(POLICY.format(order="last_use"))
    asked = {"traces": "made.jsonl", "capacities": "60,120", "policies": "lru,policy.py:Mine"}
    ran(**asked, out=tmp_path / "a")
    ran(**asked, out=tmp_path / "c")
    (tmp_path / "policy.py").write_text(POLICY.format(order="-last_use"))
    import sys

    sys.modules.pop("policy")
    ran(**asked, out=tmp_path / "b")
    sys.modules.pop("policy")
    return tmp_path


POLICY = '''
from kvframe.policies import BatchedEviction


class Mine(BatchedEviction):
    """By last use."""

    columns = ("last_use",)

    def score(self, candidates, out):
        last_use = candidates["last_use"].astype(float)
        out[:] = {order}
'''


def test_what_changed_is_told_with_its_interval(results: Path, bench: Command) -> None:
    rows = compared("a", "b").differences
    by_policy = {row.policy: row for row in rows if row.capacity_blocks == 120}
    lru, mine = by_policy["lru"], by_policy["policy.py:Mine"]
    assert (lru.change, lru.real) == (0, False)
    assert mine.change < 0
    assert mine.real is True
    assert mine.low is not None
    assert mine.high is not None
    assert mine.low < mine.change < mine.high < 0
    assert "B differs from A in 2 of " in sentence(rows)
    assert "worse by" in sentence(rows)
    assert sentence(compared("a", "c").differences).startswith("nothing changed in ")
    done = bench("compare", "a", "b", "--fail-if", "token_hit < -0.1pp")
    assert done.returncode == 1
    doubt = "made.jsonl: 95% intervals by 2,000 paired resamplings of 300 sessions."
    assert doubt in done.stdout.splitlines()
    assert "--fail-if token_hit < -0.1pp: made.jsonl engine policy.py:Mine" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("B differs from A")
    done = bench("compare", "a", "c", "--fail-if", "token_hit_rate < -0.1pp", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["failed"] == []


def test_plain_json_has_no_intervals(results: Path) -> None:
    metrics = ["token_hit_rate", "evictions"]
    rows = compared("a/results.json", "b/results.json", metrics).differences
    assert all(row.real is None for row in rows)
    assert {row.metric for row in rows} == {"token_hit_rate", "evictions"}
    assert "without intervals" in sentence(rows)
    # Still a gate, of the figures alone.
    assert any(Limit.parse("token_hit_rate < -0.1pp").crossed(row) for row in rows)
    with pytest.raises(ConfigError, match="did you mean evictions"):
        compared("a", "b", ["eviction"])


def test_cells_of_one_result_alone_are_named(results: Path, bench: Command) -> None:
    ran(traces="made.jsonl", capacities="60", policies="lru,fifo", out=results / "d")
    done = bench("compare", "a", "d")
    assert done.returncode == 0
    only_a, only_b, said = done.stdout.splitlines()[-3:]
    assert only_a.startswith("only in A: made.jsonl engine ")
    assert "made.jsonl engine lru 120 blocks of 16 tokens" in only_a
    assert "policy.py:Mine 60 blocks" in only_a
    assert only_b == "only in B: made.jsonl engine fifo 60 blocks of 16 tokens."
    assert said.startswith("nothing changed in ")
    limit = "--fail-if", "token_hit_rate < -99pp"
    gone = bench("compare", "a", "d", *limit)
    assert gone.returncode == 1
    assert "--fail-if: only in A, so not compared: made.jsonl engine " in gone.stderr
    told = json.loads(bench("compare", "a", "d", *limit, "--json").stdout)
    assert len(told["failed"]) == len(told["only_in_a"]) > len(told["only_in_b"]) == 1


def test_a_cell_that_is_new_does_not_fail(results: Path, bench: Command) -> None:
    ran(traces="made.jsonl", capacities="60", policies="lru", out=results / "d")
    ran(traces="made.jsonl", capacities="60", policies="lru,fifo", out=results / "e")
    done = bench("compare", "d", "e", "--fail-if", "token_hit_rate < -0.1pp")
    assert (done.returncode, done.stderr) == (0, "")
    assert "only in B: made.jsonl engine fifo 60 blocks of 16 tokens." in done.stdout


@pytest.mark.parametrize("schema", ["kvframe-bench-1", "kvframe-bench-3"])
def test_results_of_another_form_are_refused_by_name(
    results: Path, tmp_path: Path, schema: str
) -> None:
    data = (Path("a") / "results.json").read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    (other / "results.json").write_bytes(data.replace(b"kvframe-bench-2", schema.encode(), 1))
    with pytest.raises(ConfigError, match=f"schema = '{schema}': this kvframe reads 'kvframe-"):
        read_cells(str(other))
    assert read_names(str(other)) is None
    assert read_verdicts(other) == []


@pytest.mark.parametrize("text", ["token_hit_rate", "a < b", "x = 3", "x < 3 points"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--fail-if"):
        Limit.parse(text)
