"""The kit for admission policies and prefix matchers: good ones pass, planted faults are found."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kvframe import AdmissionPolicy, PrefixMatcher, UsageError
from kvframe.policies import BatchedAdmission, BatchedPrefix
from kvframe.policies.builtin import BUILTIN
from kvframe.policies.builtin_admission import BUILTIN_ADMISSION
from kvframe.policies.builtin_prefix import BUILTIN_PREFIX
from kvframe.testing import KindConformance, check_kind, check_policy

from ..manager.gates import UsedTwice
from ..manager.matchers import DictIndex, Timeless

SMALL: dict[str, dict[str, Any]] = {
    "size": {"min_tokens": 6, "max_tokens": 9},
    "cost": {"min_cost": 6},
    "min-hit": {"min_tokens": 5},
}


def admission(make: Any) -> AdmissionPolicy:
    return AdmissionPolicy(name="planted", way="batched", summary="", make=lambda _: make())


def prefix(make: Any) -> PrefixMatcher:
    return PrefixMatcher(name="planted", way="batched", summary="", make=lambda _: make())


SHIPPED = [*BUILTIN_ADMISSION, *(p for p in BUILTIN_PREFIX if p.name != "radix")]


@pytest.mark.parametrize("policy", SHIPPED, ids=lambda policy: f"{policy.kind} {policy.name}")
def test_what_ships_keeps_its_promises(policy: Any) -> None:
    report = check_kind(policy, SMALL.get(policy.name))
    assert report.ok, f"\n{report}"


class TestAnAdmissionPolicyInPython(KindConformance):
    policy = admission(UsedTwice)


class TestAnIndexInPython(KindConformance):
    policy = prefix(DictIndex)


class TestANormaliser(KindConformance):
    policy = prefix(Timeless)


class Raises(BatchedAdmission):
    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        raise ValueError("no idea")


class Dice(BatchedAdmission):
    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        out[:] = [random.random() < 0.5 for _ in out]


class NoTenants(BatchedAdmission):
    columns = ("tenant",)

    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        out[:] = [{0: 1}[whose] for whose in blocks["tenant"].tolist()]


class Unset(BatchedAdmission):
    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        pass


class Liar(DictIndex):
    def match(self, prompts: Any) -> list[Any]:
        return [np.array([0, 1]) for _ in prompts.lengths]


class Greedy(BatchedPrefix):
    def take(self, prompts: Any, found: Any, out: Any) -> None:
        out += 4


PLANTED = [
    (admission(lambda: 1 // 0), "options", "ZeroDivisionError"),
    (admission(object), "options", "not a kvframe.policies.BatchedAdmission"),
    (admission(Raises), "answers", "ValueError: no idea"),
    (admission(NoTenants), "answers", "with tenants: "),
    (admission(Unset), "answers", "is unset"),
    (admission(Dice), "deterministic", "three equal runs gave"),
    (prefix(Liar), "answers", "it named blocks that do not hold the prompt's prefix"),
    (prefix(Greedy), "answers", "must be between 0 and"),
]


@pytest.mark.parametrize(("policy", "promise", "finding"), PLANTED)
def test_planted_faults_are_found(policy: Any, promise: str, finding: str) -> None:
    report = check_kind(policy)
    assert not report.ok
    assert report[promise].verdict == "failed", f"\n{report}"
    assert finding in report[promise].finding


def test_other_kinds_are_refused() -> None:
    with pytest.raises(UsageError, match="must be an AdmissionPolicy or a PrefixMatcher"):
        check_kind(BUILTIN[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("kit", [check_policy, check_kind])
@pytest.mark.parametrize(
    ("policy", "options", "told"),
    [(3, None, "policy is a int: must be an "), (None, 3, "options = 3: must be a mapping")],
)
def test_arguments_of_another_type_are_refused_by_name(
    kit: Any, policy: Any, options: Any, told: str
) -> None:
    known = BUILTIN if kit is check_policy else BUILTIN_ADMISSION
    with pytest.raises(UsageError, match=told):
        kit(known[0] if policy is None else policy, options)
