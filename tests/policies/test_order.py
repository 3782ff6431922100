"""Every built-in policy evicts in the order of its plain twin, beside running sequences."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from msgspec import inspect
from msgspec.structs import FieldInfo

from kvframe.config.describe import members
from kvframe.policies.builtin import BUILTIN

from ..amounts import amount
from .drive import EVICT, Traffic, follow, retained, run, traffic
from .twins import TWINS

TRACES, REQUESTS = amount(40, 1_000), 14
RETAINED = amount(12, 100)


def test_every_policy_has_a_twin() -> None:
    assert list(TWINS) == [policy.name for policy in BUILTIN]


@pytest.mark.scenario("ST26")
@pytest.mark.parametrize("policy", TWINS)
def test_a_policy_kills_in_the_order_of_its_twin(policy: str) -> None:
    evictions = sum(follow(policy, traffic(seed, REQUESTS)) for seed in range(TRACES))
    assert evictions > 5 * TRACES or policy in ("opt", "infinite"), evictions


@pytest.mark.scenario("F26", "ST28")
@pytest.mark.parametrize("policy", [name for name in TWINS if name not in ("opt", "infinite")])
def test_the_lowest_retention_priority_dies_and_its_policy_says_which(policy: str) -> None:
    """Priorities of requests lapse and fall, and hints change them, while blocks are cached."""
    loads = [retained(traffic(seed, REQUESTS), seed) for seed in range(RETAINED)]
    loads.append(retained(traffic(-2, 300), 0))
    evictions = sum(follow(policy, load) for load in loads)
    assert evictions > 5 * RETAINED, evictions


def limits(option: FieldInfo) -> tuple[int, int]:
    """The lowest and the highest value of an option."""
    (kind,) = members(option.type)
    assert isinstance(kind, inspect.IntType)
    assert kind.ge is not None
    assert kind.le is not None
    return int(kind.ge), int(kind.le)


OPTIONS = {
    policy.name: {field.name: limits(field) for field in msgspec.structs.fields(policy.options)}
    for policy in BUILTIN
    if policy.options is not None
}
"""The lowest and the highest value of each option that the core declares."""


@pytest.mark.parametrize(
    ("policy", "option"), [(policy, option) for policy in OPTIONS for option in OPTIONS[policy]]
)
def test_an_option_acts_and_its_twin_reads_it(policy: str, option: str) -> None:
    """It changes a victim, if need be where all others are at their highest, or lowest."""
    load = replace(traffic(-10, 500), capacity=10)
    rest = {name: limits for name, limits in OPTIONS[policy].items() if name != option}
    lowest, highest = ({name: of[end] for name, of in rest.items()} for end in (0, 1))
    acts = False
    for others in ({}, highest, lowest):
        default = evicted(policy, load, others)
        for value in OPTIONS[policy][option]:
            given = {**others, option: value}
            assert follow(policy, load, **given) > 100
            acts = acts or evicted(policy, load, given) != default
    assert acts


def evicted(policy: str, load: Traffic, options: dict[str, int]) -> list[int]:
    """The blocks that were evicted, in order."""
    (kinds, _, blocks, *_), _, _ = run(policy, load, 1, options)
    return [block for kind, block in zip(kinds, blocks, strict=True) if kind == EVICT]


LEAST, MOST = 1, 2**32 - 1


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("2q", {"in_percent": 0, "out_percent": 0}),
        ("2q", {"in_percent": 29, "out_percent": 57}),
        ("2q", {"in_percent": 58, "out_percent": MOST}),
        ("s3-fifo", {"small_percent": 0}),
        ("s3-fifo", {"small_percent": 29}),
        ("s3-fifo", {"small_percent": 90}),
        ("s3-fifo", {"small_percent": 100}),
        ("slru-lists", {"protected_percent": 0}),
        ("slru-lists", {"protected_percent": 57}),
        ("lirs", {"hir_percent": 58}),
        ("lirs", {"hir_percent": 100}),
        ("w-tinylfu", {"window_percent": 0}),
        ("w-tinylfu", {"window_percent": 100}),
        ("mq", {"lifetime": LEAST}),
        ("mq", {"lifetime": MOST}),
        ("ttl", {"session_ticks": 0, "one_shot_ticks": MOST}),
        ("slru-decay", {"protected_uses": 1, "debounce_ticks": MOST, "decay_ticks": 7}),
        ("marconi", {"alpha_percent": MOST, "attention_blocks": LEAST}),
        ("belady-compute", {"attention_blocks": LEAST}),
        ("random-compute", {"samples": 3, "seed": 7}),
        ("random-quick-demotion", {"samples": 3, "seed": MOST, "attention_blocks": LEAST}),
        ("partial-node-random-compute", {"samples": 2, "chunk_blocks": 2}),
        ("asymcache", {"attention_blocks": LEAST}),
        ("rr-evict", {"chunk_blocks": 2}),
    ],
)
def test_options_at_their_limits_mean_what_they_say(policy: str, options: dict[str, int]) -> None:
    """29, 57, 58 and 90 % of 100 are no whole numbers in floats."""
    for capacity in (10, 100):
        load = replace(traffic(-capacity, 500), capacity=capacity)
        assert follow(policy, load, **options) > 100


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
