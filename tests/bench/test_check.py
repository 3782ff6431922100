"""``kvframe bench check``: the kit's verdicts, a row on the leaderboard, and an exit code."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe.cli import main
from kvframe.testing.trials import PROMISES

POLICY = '''
"""A policy in the making."""

from typing import Annotated

import msgspec
import numpy as np

import kvframe
from kvframe.policies import BatchedEviction


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weight: Annotated[float, msgspec.Meta(ge=0, le=1e6, description="Ticks a block.")] = 0.0


class DeepFirst(BatchedEviction):
    """The sooner the deeper.

    More of it.
    """

    columns = ("last_use", "depth")

    def __init__(self, options: Options):
        self.weight = options.weight

    def score(self, candidates, out):
        out[:] = candidates["last_use"] - self.weight * candidates["depth"]


class NoOptions(BatchedEviction):
    def score(self, candidates, out):
        print("what a policy prints is no data")
        out[:] = candidates["last_use"]


class Leaves(BatchedEviction):
    def score(self, candidates, out):
        raise SystemExit(0)


class Bad(BatchedEviction):
    def score(self, candidates, out):
        out[:] = np.nan


class ShortRuns(BatchedEviction):
    """Made for the kit: a trace's clock begins at 0, an engine's in 1970."""

    def score(self, candidates, out):
        if 0 < candidates.time < 1_000_000_000:
            raise ArithmeticError("so soon")
        out[:] = candidates["last_use"]


LATE = kvframe.EvictionPolicy(
    name="late", way="batched", summary="late", options=Options, make=DeepFirst
)


@kvframe.hookimpl
def kvframe_eviction():
    yield kvframe.EvictionPolicy(
        name="t-lru", way="batched", summary="deep", options=Options, make=DeepFirst
    )
'''


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Forty sessions of four turns each, interleaved."""
    rows = []
    for turn in range(4):
        for session in range(40):
            ids = [0, *(1 + session * 100 + block for block in range(3 * turn + 2))]
            rows.append(
                {
                    "timestamp": 1000 * (40 * turn + session),
                    "input_length": 512 * len(ids),
                    "output_length": 1,
                    "hash_ids": ids,
                }
            )
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "in_the_making.py"
    path.write_text(POLICY)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "in_the_making.py").write_text(POLICY)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("raise OSError('no model')\n")
    return path


def check(trace: Path, *args: str) -> Result:
    return CliRunner().invoke(
        main, ["bench", "check", *args, "--trace", str(trace), "--capacity", "100", "--quiet"]
    )


def table(result: Result) -> dict[str, list[str]]:
    lines = result.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("policy "))
    rows = lines[start + 1 : lines.index("", start)]
    return {row.split()[0]: row.split()[1:] for row in rows}


def told(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_a_good_policy_gets_its_row(trace: Path) -> None:
    result = check(trace, "t-lru")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("t-lru (kvframe-tlru ")
    for name, promise in PROMISES.items():
        assert f"ok       {name:<13}  {promise}\n" in result.stdout
    rows = table(result)
    assert {"opt", "t-lru", "lru"} <= rows.keys()
    assert len(rows) == 4
    assert rows["t-lru"][0] == "*"
    assert rows["opt"][0] == "-"
    assert "ns/decision" in result.stdout
    last = result.stdout.splitlines()[-1]
    assert last.startswith("t-lru keeps every promise; a decision among 256 candidates takes ")


def test_json_says_the_same(trace: Path) -> None:
    document = told(check(trace, "t-lru:threshold=4096", "--json"))
    assert document["ok"] is True
    assert [row["name"] for row in document["checks"]] == list(PROMISES)
    (board,) = document["boards"]
    assert board["cell"]["policy"] == "t-lru:threshold=4096"
    assert board["cell"]["capacity_blocks"] == 100
    best = max(board["best"]["hit_tokens"], board["cell"]["hit_tokens"])
    assert board["opt"]["hit_tokens"] >= best >= board["lru"]["hit_tokens"]
    assert 1 <= board["rank"] <= board["of"]


@pytest.mark.parametrize(
    ("plugin", "label"),
    [
        ("in_the_making.py:DeepFirst", "deep-first"),
        ("in_the_making.py:DeepFirst:weight=2", "deep-first:weight=2"),
        ("in_the_making:NoOptions", "no-options"),
        ("in_the_making.py:LATE", "late"),
        ("my_package.in_the_making", "t-lru"),
        ("my_package.in_the_making:DeepFirst", "deep-first"),
        ("in_the_making", "t-lru"),  # and not the installed one
    ],
)
def test_a_policy_in_the_making_is_named_by_its_place(
    trace: Path, file: Path, plugin: str, label: str
) -> None:
    document = told(check(trace, plugin, "--json"))
    assert document["ok"] is True, document
    assert document["origin"] == "this process"
    assert document["boards"][0]["cell"]["policy"] == label
    if "weight" not in label:
        assert (
            document["boards"][0]["cell"]["hit_tokens"]
            == (document["boards"][0]["lru"]["hit_tokens"])
        )


def test_a_file_has_its_neighbours_and_hides_no_library(
    trace: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy called as a module of Python's is one more module, as what stands beside it is."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = file.parent / "my work"
    folder.mkdir()
    (folder / "at_its_side.py").write_text("WEIGHT = 2\n")
    policy = folder / "random.py"
    policy.write_text("from at_its_side import WEIGHT\n" + POLICY)
    library = sys.modules["random"]
    assert told(check(trace, "my work/random.py:DeepFirst", "--json"))["ok"]
    assert sys.modules["random"] is library is random


def test_the_exit_code_tells_of_a_broken_promise(trace: Path, file: Path) -> None:
    result = check(trace, "in_the_making.py:Bad")
    assert result.exit_code == 1
    assert "failed   answers        score 0 of " in result.stdout
    assert "not run  cost" in result.stdout
    assert "\nno replay: bad (in_the_making.py:Bad): " in result.stdout
    assert result.stdout.splitlines()[-1].startswith(
        "bad does not keep: answers; not tried after that: eligible, "
    )


def test_the_last_line_tells_of_a_replay_that_failed(trace: Path, file: Path) -> None:
    result = check(trace, "in_the_making.py:ShortRuns")
    assert result.exit_code == 1
    assert "\nno replay: short-runs (" in result.stdout
    assert result.stdout.splitlines()[-1].startswith(
        "short-runs keeps every promise of the kit, but fails in a replay; a decision among "
    )
    assert told(check(trace, "in_the_making.py:ShortRuns", "--json"))["ok"] is False


@pytest.mark.scenario("F20")
def test_a_policy_that_ends_the_program_has_not_passed(trace: Path, file: Path) -> None:
    result = check(trace, "in_the_making.py:Leaves")
    assert result.exit_code == 1
    assert "score raised SystemExit: 0 (in_the_making.py:" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("leaves does not keep: answers")


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("t-lrru", "no eviction policy t-lrru; did you mean t-lru?"),
        ("opt", "opt needs to know the future"),
        ("nowhere.policy", "no eviction policy nowhere.policy"),
        ("broken.policy", "cannot import broken.policy: OSError: no model"),
        ("nowhere.py", "nowhere.py: no such file"),
        ("nowhere:Policy", "nowhere: no such module"),
        ("in_the_making.py:Nobody", "in_the_making.py has no Nobody"),
        ("in_the_making.py:DeepFrist", "has no DeepFrist; did you mean DeepFirst?"),
        ("in_the_making.py:Options", "the class derives from none of BatchedEviction"),
        ("in_the_making.py:DeepFirst:weigth=2", "unknown key; did you mean deep-first.weight?"),
    ],
)
def test_what_cannot_be_had_is_refused_in_a_line(
    trace: Path, file: Path, plugin: str, words: str
) -> None:
    result = check(trace, plugin)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""
