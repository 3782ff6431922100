"""``kvframe bench check`` of admission policies and prefix matchers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe.bench.locate import locate
from kvframe.bench.policies import Choice
from kvframe.cli import main
from kvframe.testing.kinds import PROMISES_OF_KINDS

POLICIES = '''
from kvframe.policies import BatchedAdmission, BatchedPrefix


class Shallow(BatchedAdmission):
    """The first blocks of a prompt."""

    columns = ("depth",)

    def admit(self, blocks, tier, out):
        out[:] = blocks["depth"] < 1


class Bad(BatchedAdmission):
    def admit(self, blocks, tier, out):
        out[:] = 9


class Half(BatchedPrefix):
    def take(self, prompts, found, out):
        out //= 2
'''


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sorts.py").write_text(POLICIES)


def check(small: Path, *args: str) -> Result:
    more = ("--trace", str(small), "--capacity", "8", "--quiet")
    return CliRunner().invoke(main, ["bench", "check", *args, *more])


def told(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize(
    ("plugin", "label", "hits"),
    [
        ("second-use", "lru+second-use", 1024),
        ("size:max_tokens=512", "lru+size:max_tokens=512", 1024),
        ("min-hit:min_tokens=1025", "lru/min-hit:min_tokens=1025", 0),
        ("sorts.py:Shallow", "lru+shallow", 1024),
    ],
)
def test_a_policy_keeps_its_promises_and_is_replayed_with_lru(
    small: Path, plugin: str, label: str, hits: int
) -> None:
    document = told(check(small, plugin, "--json"))
    assert document["ok"] is True, document
    assert [row["name"] for row in document["checks"]] == list(PROMISES_OF_KINDS)
    (board,) = document["boards"]
    assert (board["cell"]["policy"], board["cell"]["hit_tokens"]) == (label, hits)
    assert board["lru"]["hit_tokens"] == 2048


def test_a_name_of_two_kinds_is_the_first_unless_said(small: Path) -> None:
    assert isinstance(locate("cost")[0], Choice)
    admission = check(small, "cost", "--kind", "admission")
    assert admission.exit_code == 0, admission.output
    assert "lru+cost *" in admission.stdout
    assert admission.stdout.splitlines()[-1] == "cost keeps every promise"


def test_a_broken_promise_is_exit_code_1(small: Path) -> None:
    result = check(small, "sorts.py:Bad")
    assert result.exit_code == 1
    assert "failed   answers" in result.stdout
    assert "no replay: bad (sorts.py:Bad)" in result.stdout


def test_what_is_not_of_that_kind_is_refused(small: Path) -> None:
    wrong = check(small, "second-use", "--kind", "eviction")
    assert wrong.exit_code == 2
    assert "no eviction policy second-use" in wrong.stderr
    half = check(small, "sorts.py:Half", "--kind", "admission")
    told = "sorts.py:Half: it gives a prefix matcher (half); must be an admission policy"
    assert told in half.stderr
