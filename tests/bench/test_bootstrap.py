"""Differences that are told, and those that are not: on numbers, and on replays under chance."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import _core
from kvframe.bench.bootstrap import clusters, drawn_rates, simultaneous, told
from kvframe.bench.outcomes import RequestFacts
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.policies import BatchedEviction
from kvframe.registry import EvictionPolicy, Loaded
from tests.amounts import amount

Floats = npt.NDArray[np.float64]


def told_apart(
    one: npt.NDArray[np.uint32],
    other: npt.NDArray[np.uint32],
    tokens: npt.NDArray[np.uint32],
    session: npt.NDArray[np.int64],
    draws: int = 500,
) -> bool:
    """Whether two policies differ at the 5 % level."""
    drawn = drawn_rates([one, other], tokens, session, draws, seed=7)
    whole = tokens.sum(dtype=np.int64)
    estimate = np.array([(one.sum(dtype=np.int64) - other.sum(dtype=np.int64)) / whole])
    return bool(simultaneous(estimate, drawn[:, :1] - drawn[:, 1:]).real[0])


def test_requests_of_a_session_are_one_cluster() -> None:
    cluster, count = clusters(np.array([4, -1, 4, 9, -1]))
    assert (cluster.tolist(), count) == ([0, 2, 0, 1, 3], 4)
    assert clusters(np.array([1, 1, 0]))[1] == 2
    assert clusters(np.array([-1, -1]))[1] == 2
    assert clusters(np.array([], np.int64))[1] == 0


def facts(session: list[int]) -> RequestFacts:
    count = len(session)
    none = np.full(count, -1)
    return RequestFacts(np.full(count, 16, np.uint32), np.array(session), none, none[:0])


def test_one_session_is_resampled_by_request() -> None:
    """Drawn whole, each draw would be the same, and any difference certain."""
    dice = np.random.default_rng(5)
    hits = dice.integers(0, 1000, 500).astype(np.uint32)
    tokens = np.full(500, 1000, np.uint32)
    one, none = (drawn_rates([hits], tokens, np.full(500, name)) for name in (7, -1))
    assert one.std() > 0
    assert np.array_equal(one, none)


def test_what_is_resampled_is_said_and_that_it_is_few() -> None:
    few = "(few: intervals of less than 20 are too narrow)"
    alone = "(all are of one session, which says little: intervals are too narrow)"
    assert told(facts([3] * 40)) == f"40 requests {alone}"
    assert told(facts([3, 3, 4])) == f"2 sessions {few}"
    # Of those behind the warm-up all are of one.
    assert told(facts([3, 3, 4]), 2) == f"1 request {alone}"
    assert told(facts(list(range(19)))) == f"19 sessions {few}"
    assert told(facts(list(range(20)))) == "20 sessions"
    assert "names no sessions" in told(facts([-1, -1]))


def test_the_spread_of_draws_is_that_of_the_mean() -> None:
    """Of requests of equal length the rate is a mean, whose standard error has a formula."""
    dice = np.random.default_rng(0)
    hits = dice.integers(0, 1000, 4_000).astype(np.uint32)
    tokens = np.full(4_000, 1000, np.uint32)
    drawn = drawn_rates([hits], tokens, np.full(4_000, -1))
    expected = (hits / 1000).std() / np.sqrt(4_000)
    assert drawn.std() == pytest.approx(expected, rel=0.05)
    # Sessions of four requests that go alike are as few as they are.
    fours = np.repeat(hits[:1_000], 4)
    drawn = drawn_rates([fours], tokens, np.arange(4_000) // 4)
    assert drawn.std() == pytest.approx((hits[:1_000] / 1000).std() / np.sqrt(1_000), rel=0.1)


def test_intervals_hold_together() -> None:
    """Of forty comparisons without a difference none is told in 95 of 100 draws."""
    dice = np.random.default_rng(1)
    wrong = 0
    runs = amount(300, 1_000)
    for _ in range(runs):
        values = dice.normal(size=(200, 40))
        drawn = np.stack([values[dice.integers(200, size=200)].mean(axis=0) for _ in range(200)])
        wrong += bool(simultaneous(values.mean(axis=0), drawn).real.any())
    assert 0.02 * runs <= wrong <= 0.08 * runs


def test_no_spread_is_a_difference_or_none() -> None:
    made = simultaneous(np.array([0.1, 0.0]), np.tile([0.1, 0.0], (100, 1)))
    assert made.real.tolist() == [True, False]
    assert made.p[0] < 0.05
    assert made.p[1] == 1


@pytest.mark.parametrize("sessions", [100, pytest.param(2_000, marks=pytest.mark.slow)])
def test_under_chance_few_are_told(sessions: int) -> None:
    """Two policies whose hits are drawn alike: 3 to 7 of 100 draws at the 5 % level."""
    dice, told, runs = np.random.default_rng(3), 0, amount(300, 1_000)
    session = np.repeat(np.arange(sessions), max(1, 400 // sessions))
    for _ in range(runs):
        tokens = dice.geometric(1 / 2_000, len(session)).astype(np.uint32)
        likely = dice.beta(0.5, 1, sessions)[session]
        one, other = (dice.binomial(tokens, likely).astype(np.uint32) for _ in range(2))
        told += told_apart(one, other, tokens, session, draws=300)
    assert 0.03 * runs <= told <= 0.07 * runs, told


def test_five_points_are_told_at_2_000_requests() -> None:
    dice, runs = np.random.default_rng(4), amount(20, 200)
    told = 0
    for _ in range(runs):
        tokens = dice.geometric(1 / 5_000, 2_000).astype(np.uint32)
        own = dice.random(2_000)
        one, other = (
            np.where(own + dice.normal(0, 0.1, 2_000) < rate, tokens * 0.9, 0).astype(np.uint32)
            for rate in (0.55, 0.49)
        )
        told += told_apart(one, other, tokens, np.full(2_000, -1))
    assert told == runs


class AtRandom(BatchedEviction):
    """Evicts by chance."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)

    def score(self, candidates: object, out: Floats) -> None:
        out[:] = self.dice.random(len(out))


def at_random(seed: int) -> object:
    policy = EvictionPolicy(
        name="at-random", way="batched", summary="", make=lambda _: AtRandom(seed)
    )
    made = driver(Loaded(policy, "test", "1", "test"), Terms(16, None))
    assert made is not None
    return made


def drawn_trace(dice: np.random.Generator, sessions: int) -> _core.Trace:
    """Sessions of a few turns, interleaved; each turn's prompt goes on from the last."""
    turns = dice.integers(1, 6, sessions)
    order = dice.permutation(np.repeat(np.arange(sessions), turns))
    blocks = {int(one): 0 for one in range(sessions)}
    lines = []
    for at, one in enumerate(order.tolist()):
        blocks[one] += int(dice.integers(1, 5))
        ids = [1000 * one + i for i in range(blocks[one])]
        lines.append(
            {"timestamp": at, "input_length": 16 * len(ids) + 1, "output_length": 1,
             "hash_ids": ids, "session_id": one, "block_size": 16}
        )  # fmt: skip
    return _core.Trace.parse("\n".join(map(json.dumps, lines)).encode(), "drawn", None)


@pytest.mark.slow
def test_a_policy_at_random_is_not_better_than_itself() -> None:
    """Real replays: eviction by chance under two seeds, on sessions drawn anew each time."""
    dice, told, runs = np.random.default_rng(5), 0, amount(300, 1_000)
    for run in range(runs):
        trace = drawn_trace(dice, 80)
        columns = trace.columns()
        one, other = (
            _core.replay(trace, at_random(2 * run + i), 120, "engine", per_request=True)
            for i in range(2)
        )
        told += told_apart(
            one["request_hit_tokens"], other["request_hit_tokens"],
            columns["input_tokens"], columns["session"], draws=300,
        )  # fmt: skip
    assert 0.03 * runs <= told <= 0.07 * runs, told
