"""foresight's page says what is measured, and its bars are counted right."""

from __future__ import annotations

import numpy as np
import pytest
from perf.bars import Rates, Timed, by_clock, of_hits, told
from perf.cells import CAPACITIES, small

from kvframe import _core
from kvframe.bench.traces import load
from perf import default


def test_gains_are_those_of_replays_and_their_draws_are_around_them() -> None:
    whole, late, _ = default.gains("synthetic")
    trace = load("synthetic").trace
    for at, capacity in enumerate(CAPACITIES["synthetic"]):
        lru, ours = (_core.replay(trace, name, capacity, "engine") for name in ("lru", "foresight"))
        gain = 100 * (ours["hit_tokens"] - lru["hit_tokens"]) / lru["input_tokens"]
        assert whole.points[at] == pytest.approx(gain)
        hits = ours["hit_tokens_last_half"] - lru["hit_tokens_last_half"]
        assert late.points[at] == pytest.approx(100 * hits / lru["input_tokens_last_half"])
    assert np.allclose(whole.drawn_points.mean(axis=0), whole.points, atol=0.2)


def rates(ours: float, lru: float = 10.0, other: float = 10.0) -> dict[str, Rates]:
    whole = {"lru": lru, "foresight": ours, "mq+frequency": other}
    return {name: Rates(rate, rate) for name, rate in whole.items()}


def test_bars_of_hits_name_the_cell_that_is_farthest_off() -> None:
    near = {("conversation", size): rates(11.0) for size in CAPACITIES["conversation"]}
    assert all(bar.held for bar in of_hits(near))
    cells = near | {("agent", 2_000): rates(9.6, other=10.7)}
    held = {bar.asked: bar.held for bar in of_hits(cells)}
    assert list(held.values()) == [False, False, True, False, True]
    text = told(list(of_hits(cells)))
    assert "8 of 9" in text
    assert "1.10 behind `mq+frequency` in agent, 2,000" in text
    assert "-0.40 in agent, 2,000" in text


def test_bars_by_the_clock_are_of_the_small_half_and_of_the_worst_cell() -> None:
    lru = Timed(10.0, 1.0, 9.0)
    cells = {
        ("agent", size): (lru, Timed(12.5 if size in small("agent") else 9.0, 1.0, 9.0))
        for size in CAPACITIES["agent"]
    }
    assert [bar.held for bar in by_clock(cells)] == [True, True, True]
    cells["agent", 32_000] = (lru, Timed(10.0, 1.02, 9.05))
    assert [bar.held for bar in by_clock(cells)] == [True, False, True]


@pytest.mark.parametrize("family", ["loop", "chat"])
def test_made_up_traffic_has_cells_of_each_capacity(family: str) -> None:
    cells = default.made_cells(family, 0)
    assert len({cell.capacity for cell in cells}) == len(cells) > 2
    assert (max(cell.whole for cell in cells) > 1) == (family == "loop")
