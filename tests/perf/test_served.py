"""What policies are worth to users has intervals, and the page says where it is nothing."""

from __future__ import annotations

from typing import Any

import pytest
from perf.cells import ADMISSIONS, CAPACITIES
from perf.results import last_record
from perf.served import LOADS, PAGE, PAIRED, cells, measured, online, policies
from perf.served_page import BOUND, judged, page

SMALL = measured(cells("synthetic", 500, "0.25", ["lru", "foresight", BOUND]))


def test_the_page_is_written_from_the_record() -> None:
    record = last_record("served")
    assert record["complete"]
    assert PAGE.read_text("utf-8") == page(record)


def test_the_record_has_every_policy_in_every_cell() -> None:
    record = last_record("served")
    found = {(r["trace"], r["capacity"], r["load"], r["policy"]) for r in record["rows"]}
    pairs = [f"{policy}+{gate}" for policy in PAIRED for gate in ADMISSIONS]
    for trace, capacities in CAPACITIES.items():
        for policy in ("lru", "foresight", "mq", *pairs, BOUND):
            assert {(trace, c, float(load), policy) for c in capacities for load in LOADS} <= found
    expected = {*policies(record["leading"]), *pairs}
    assert {policy for *_, policy in found} == expected


def test_a_cell_has_lru_first_and_its_change_is_none() -> None:
    assert [row["policy"] for row in SMALL] == [
        *("lru", "foresight", "opt"),
        *("lru+second-use", "lru+frequency"),
    ]
    names = ("hit_low", "hit_high", "mean_low", "mean_high")
    assert [SMALL[0][name] for name in names] == [0.0] * 4
    assert online()[0] == "lru"


@pytest.mark.parametrize("row", SMALL[1:], ids=lambda row: str(row["policy"]))
def test_an_interval_holds_what_was_measured(row: dict[str, Any]) -> None:
    lru = SMALL[0]
    assert row["hit_low"] <= row["hit"] - lru["hit"] <= row["hit_high"]
    assert row["mean_low"] <= row["mean"] / lru["mean"] - 1 <= row["mean_high"]
    assert row["p50"] <= row["p99"]


def verdict(**changes: dict[str, Any]) -> str:
    """Of a cell with a few figures changed."""
    flat = {"saturated": False, "mean": 1.0, "mean_low": -0.1, "mean_high": 0.1}
    rows = [{**row, **flat, **changes.get(row["policy"], {})} for row in SMALL[:3]]
    (cell,) = judged(rows)
    return cell.verdict


def test_eviction_matters_where_the_best_is_ahead_beyond_chance() -> None:
    ahead = {"mean": 0.5, "mean_low": -0.7, "mean_high": -0.3}
    barely = {"mean": 0.97, "mean_low": -0.04, "mean_high": -0.02}
    chance = {"mean": 0.5, "mean_low": -0.8, "mean_high": 0.1}
    assert verdict() == verdict(foresight=chance) == "no longer"
    assert verdict(opt=barely) == verdict(opt=chance) == "no longer"
    assert verdict(opt=ahead, foresight=chance) == verdict(opt=ahead) == "not told apart"
    assert verdict(foresight=barely) == verdict(opt=ahead, foresight=barely) == "little"
    assert verdict(foresight=ahead) == verdict(opt=ahead, foresight=ahead) == "yes"
    assert verdict(opt=ahead, foresight=ahead, lru={"saturated": True}) == "saturated"
