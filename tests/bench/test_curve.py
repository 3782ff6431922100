"""One pass says of lru what a replay a size says; a sample says it of others, nearly."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import _core
from kvframe.bench.curve import (
    Curve,
    conversations,
    knee,
    lru_curve,
    sample,
    sampled_curves,
    spaced,
)
from kvframe.bench.policies import choose
from kvframe.bench.traces import load
from kvframe.errors import ConfigError
from kvframe.registry import Registry

from .made import source


@pytest.mark.parametrize("mode", ["engine", "trace"])
@pytest.mark.parametrize("seed", range(4))
def test_one_pass_equals_a_replay_a_size(mode: str, seed: int) -> None:
    made = source(np.random.default_rng(seed))
    found = lru_curve(made, mode)
    assert len(found.capacities) > 10
    check(found, made.trace, mode)
    assert list(found.token_hit_rates) == sorted(found.token_hit_rates)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_on_the_shipped_traces(name: str) -> None:
    made = load(name)
    found = lru_curve(made, "engine")
    assert len(found.capacities) == 20
    check(found, made.trace, "engine")


def check(found: Curve, trace: _core.Trace, mode: str) -> None:
    for size, rate in zip(found.capacities, found.token_hit_rates, strict=True):
        hits = _core.replay(trace, "lru", size, mode)["hit_tokens"]
        assert rate == hits / trace.input_tokens, size


def test_below_the_longest_prompt_it_replays() -> None:
    made = source(np.random.default_rng(9))
    check(lru_curve(made, "engine", [1, 2, 5, 400]), made.trace, "engine")


def test_the_clock_has_no_stack() -> None:
    with pytest.raises(ConfigError, match="one request at a time"):
        lru_curve(source(np.random.default_rng(0)), "timed")


def test_the_knee_is_where_room_stops_to_pay() -> None:
    sizes = [2**n for n in range(11)]
    rates = [min(0.1 * n, 0.5) for n in range(11)]
    assert knee(Curve(policy="lru", exact=True, capacities=sizes, token_hit_rates=rates)) == 32
    flat = Curve(policy="lru", exact=True, capacities=sizes, token_hit_rates=[0.1] * 11)
    assert knee(flat) == 1


def test_a_sample_has_whole_conversations() -> None:
    made = source(np.random.default_rng(2), 200)
    some = sample(made, 0.25)
    assert 0.15 < some.trace.requests / made.trace.requests < 0.35
    # All share two blocks, which is no conversation; each session is one.
    number, session = conversations(made.trace), made.facts.session
    assert (
        len(np.unique(number))
        == len(np.unique(session))
        == len(np.unique(np.stack([number, session]), axis=1).T)
    )


def test_a_sampled_curve_is_near_the_whole_one() -> None:
    made = source(np.random.default_rng(3), 800)
    profile = _core.TraceProfile.of(made.trace, "engine")
    exact = lru_curve(made, "engine", spaced(profile, 8)[2:])
    choices = [choose("fifo", Registry())]
    (near,) = sampled_curves(made, "engine", choices, exact, 0.5)
    (whole,) = sampled_curves(made, "engine", choices, exact, 1)
    assert (near.exact, whole.exact) == (False, True)
    off = np.abs(np.array(near.token_hit_rates) - np.array(whole.token_hit_rates))
    assert off.max() < 0.05
    assert 0 < near.error < 0.1
