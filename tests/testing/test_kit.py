"""The conformance kit: every built-in policy passes, and each planted fault is found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvframe import EvictionPolicy, PluginError, PrefixMatcher, Registry, UsageError
from kvframe.testing import EvictionConformance, KindConformance, check_policy
from kvframe.testing.cost import BUDGET_US
from kvframe.testing.trials import PROMISES

from .planted import Lru, Names, cases, policy

pytestmark = pytest.mark.scenario("S22")

LISTED = [row for row in Registry().list() if row.kind == "eviction"]
REPLAY_ONLY = {"opt", "opt-forced", "belady-compute", "infinite"}
BUSY_US = 2000.0
"""Several suites may share the machine; the budget itself is held by test_cost alone."""


ONLINE = [row.name for row in LISTED if row.name not in REPLAY_ONLY]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if at % 8 else [])
        for at, name in enumerate(ONLINE)
    ],
)
def test_every_installed_policy_keeps_its_promises(name: str) -> None:
    report = check_policy(name, budget_us=BUSY_US)
    assert report.ok, f"\n{report}"
    assert report.decision_us is not None
    assert report.policy == name
    assert [report[check.name] for check in report] == list(report.checks)
    assert [check.name for check in report.checks] == list(PROMISES)


@pytest.mark.parametrize("name", sorted(REPLAY_ONLY))
def test_what_knows_the_future_is_not_for_the_kit(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} needs to know the future"):
        check_policy(name)


@pytest.mark.parametrize("kind", [Lru, Names])
def test_what_the_planted_faults_spoil_is_good(kind: Callable[..., object]) -> None:
    good = policy(lambda _: kind())
    report = check_policy(good, budget_us=BUSY_US)
    assert report.ok, f"\n{report}"
    assert report.origin == "this process"


PLANTED = list(cases())


@pytest.mark.parametrize(
    ("bad", "promise", "words"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED]
)
def test_a_planted_fault_is_found_and_named(bad: EvictionPolicy, promise: str, words: str) -> None:
    # A quadratic one is quick enough among few.
    report = check_policy(bad, budget_us=BUSY_US if "proportion" in words else BUDGET_US)
    assert not report.ok
    assert report[promise].verdict == "failed", f"\n{report}"
    assert words in report[promise].finding
    assert "\n" not in report[promise].finding
    others = {check.name for check in report.checks if check.verdict == "failed"} - {promise}
    assert others <= {"cost"}, f"\n{report}"


def test_each_promise_is_broken_by_some_planted_policy() -> None:
    assert {case[2] for case in PLANTED} == set(PROMISES)


def test_options_are_tried_as_given() -> None:
    report = check_policy("t-lru", {"threshold": 1, "next_prompt_estimate": 1})
    assert "threshold = 1 must be above" in report["options"].finding


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ("no-such", PluginError, "no eviction policy no-such"),
        (3, UsageError, "policy is a int: must be an EvictionPolicy"),
        (
            PrefixMatcher(name="p", way="batched", summary="", make=lambda _: None),
            UsageError,
            "policy is a prefix: must be an EvictionPolicy",
        ),
    ],
)
def test_what_is_no_policy_is_refused(wrong: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        check_policy(wrong)  # type: ignore[arg-type]


HASHED = """
from kvframe.policies import BatchedEviction

class Hashed(BatchedEviction):
    columns = ("key",)

    def score(self, candidates, out):
        out[:] = [hash(str(key)) % 1009 for key in candidates["key"].tolist()]
"""

TESTS = """
from kvframe.testing import EvictionConformance

class TestTLru(EvictionConformance):
    policy = "t-lru"
    options = {"threshold": 64, "next_prompt_estimate": 8}
    budget_us = 2000

class TestBad(EvictionConformance):
    policy = "t-lru"
    options = {"threshold": 0}
"""


@pytest.mark.parametrize(("name", "meant"), [("option", "options"), ("budget", "budget_us")])
def test_a_misspelt_setting_is_refused(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"TestMine.{name}: .*did you mean {meant}?"):
        type("TestMine", (EvictionConformance,), {"policy": "lru", name: 1})


def test_a_class_may_have_more_of_its_own() -> None:
    own = {"policy": "lru", "size": 4, "option": lambda self: 1, "test_order": lambda self: None}
    assert type("TestMine", (EvictionConformance,), own)
    with pytest.raises(TypeError, match="did you mean options"):
        type("TestGate", (KindConformance,), {"option": {}})


def test_it_runs_in_another_process_too(tmp_path: Path) -> None:
    """Named by its place; a new process does not find what is given as an object."""
    (tmp_path / "hashed.py").write_text(HASHED)
    (loaded,) = Registry().at(f"{tmp_path / 'hashed.py'}:Hashed")
    assert isinstance(loaded.descriptor, EvictionPolicy)
    report = check_policy(loaded)  # type: ignore[arg-type]
    assert "PYTHONHASHSEED" in report["deterministic"].finding
    assert check_policy(loaded.descriptor)["deterministic"].verdict == "ok"


def test_a_class_is_all_that_an_author_writes(tmp_path: Path) -> None:
    (tmp_path / "test_policy.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert f"{len(PROMISES)} failed, {len(PROMISES)} passed" in done.stdout
    assert "AssertionError: options: " in done.stdout
    assert "threshold = 0 must be above" in done.stdout
