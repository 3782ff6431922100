"""One pass says of lru what a replay a size says; replays at some sizes bound it for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

from kvframe import _core
from kvframe.bench.curve import Curve, knee, lru_curve, replayed_curves
from kvframe.bench.policies import choose
from kvframe.bench.traces import load
from kvframe.cli import main
from kvframe.errors import ConfigError
from kvframe.registry import Registry

from .made import source, write


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
    assert knee(flat) is None
    late = [0.0] * 10 + [0.1]
    bend = knee(Curve(policy="lru", exact=True, capacities=sizes, token_hit_rates=late))
    assert bend is None, "an end of the curve is no knee"


def test_a_small_trace_is_replayed_at_every_size() -> None:
    made = source(np.random.default_rng(3), 200)
    lru = lru_curve(made, "engine")
    (found,) = replayed_curves(made, "engine", [choose("fifo", Registry())], lru)
    assert found.exact
    assert list(found.replayed) == list(lru.capacities)
    for size, rate in zip(found.capacities, found.token_hit_rates, strict=True):
        assert rate == _core.replay(made.trace, "fifo", size, "engine")["hit_tokens"] / (
            made.trace.input_tokens
        )


@pytest.mark.parametrize("policy", ["fifo", "mq", "lfu"])
def test_between_replays_the_error_is_bounded_and_said(policy: str) -> None:
    off, error = interpolated(policy, 4)
    assert off.max() <= error


def test_what_was_seen_of_a_policy_that_learns_holds_at_nineteen_of_twenty_sizes() -> None:
    """Foresight's curve has steps where it learnt otherwise: no few replays bound them all."""
    within = [
        off <= error for off, error in (interpolated("foresight", seed) for seed in range(4, 12))
    ]
    assert np.mean(within) >= 0.95


def interpolated(policy: str, seed: int) -> tuple[npt.NDArray[np.float64], float]:
    """How far off each rate of a curve is, and how far it is said to be."""
    made = source(np.random.default_rng(seed), 400)
    lru = lru_curve(made, "engine")
    choices = [choose(policy, Registry())]
    (whole,) = replayed_curves(made, "engine", choices, lru)
    (some,) = replayed_curves(made, "engine", choices, lru, 10)
    assert not some.exact
    assert len(some.replayed) == 10
    ceiling = _core.replay(made.trace, "infinite", 1, "engine")["hit_tokens"]
    assert max(some.token_hit_rates) <= ceiling / made.trace.input_tokens
    off = np.abs(np.array(some.token_hit_rates) - whole.token_hit_rates)
    assert not off[np.isin(some.capacities, some.replayed)].any()
    return off, some.error


def test_two_replays_say_nothing_of_what_lies_between() -> None:
    made = source(np.random.default_rng(0))
    with pytest.raises(ConfigError, match="--replays 2: must be at least 3"):
        replayed_curves(made, "engine", [], lru_curve(made, "engine"), 2)


def test_the_command_marks_what_is_interpolated_and_its_knee_stays(tmp_path: Path) -> None:
    trace = str(write(tmp_path / "made.jsonl", 200))
    told = run("--trace", trace, "--policy", "fifo", "--replays", "3")
    rows = [line.split()[-1] for line in told.splitlines() if "%" in line]
    assert sum(cell.startswith("~") for cell in rows) == len(rows) - 3 > 0
    assert "fifo: replayed at 3 of 20 capacities; where ~ stands, off by" in told
    ends = {
        run("--trace", trace, "--capacity", sizes).splitlines()[-1]
        for sizes in ("50:200:x2", "100", "400:800:+100")
    }
    assert ends == {told.splitlines()[-1]}


def run(*words: str) -> str:
    found = CliRunner().invoke(main, ["bench", "curve", *words])
    assert found.exit_code == 0, found.output
    return found.output
