"""Every built-in policy kills in the order of its plain twin, beside running sequences."""

from __future__ import annotations

import pytest

from kvframe.policies.builtin import BUILTIN

from .drive import follow, traffic
from .twins import TWINS

TRACES, REQUESTS = 1_000, 14


def test_every_policy_has_a_twin() -> None:
    assert list(TWINS) == [policy.name for policy in BUILTIN]


@pytest.mark.scenario("ST26")
@pytest.mark.parametrize("policy", TWINS)
def test_a_policy_kills_in_the_order_of_its_twin(policy: str) -> None:
    evictions = sum(follow(policy, traffic(seed, REQUESTS)) for seed in range(TRACES))
    assert evictions > 5 * TRACES or policy in ("opt", "infinite"), evictions


@pytest.mark.parametrize(
    ("policy", "size"),
    [
        ("foresight", 1),
        ("foresight", 900),
        ("foresight", 4_096),
        ("w-tinylfu", 1),
        ("mq", 1),
        ("workload", 1),
        ("session", 1),
    ],
)
def test_what_a_policy_learns_it_learns_as_its_twin(policy: str, size: int) -> None:
    """Long enough for several rounds of learning and forgetting."""
    assert follow(policy, traffic(-1, 1_200), size) > 1_200
