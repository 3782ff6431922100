"""The page of the zoo is made of its record, and the record is what is measured."""

from __future__ import annotations

import pytest
from perf.cells import CAPACITIES
from perf.results import last_record
from perf.zoo import (
    PAGE,
    alone,
    block_hits,
    oracle_general,
    stream,
    with_costs,
    zoo,
)
from perf.zoo_page import BLOCKS, SAVED, page

from kvframe.bench.traces import load
from kvframe.policies.builtin import BUILTIN

RECORD = last_record("zoo")


def test_the_page_is_written_from_the_record() -> None:
    assert PAGE.read_text() == page(RECORD)


def test_the_record_has_every_policy_in_every_cell() -> None:
    found = {(row["trace"], row["policy"], row["capacity"]) for row in RECORD["rows"]}
    for trace, capacities in CAPACITIES.items():
        for policy in BUILTIN:
            sizes = [None] if policy.name == "infinite" else capacities
            assert {(trace, policy.name, size) for size in sizes} <= found
    assert len({row["policy"] for row in RECORD["rows"]}) >= 25


@pytest.mark.parametrize(
    "policy", ["lru", "foresight", "mq", "opt", "random-compute", "belady-compute"]
)
def test_the_record_is_what_is_measured(policy: str) -> None:
    capacity = CAPACITIES["synthetic"][0]
    recorded = {
        row["policy"]: {name: row[name] for name in ("hit", *SAVED)}
        for row in RECORD["rows"]
        if row["trace"] == "synthetic" and row["capacity"] in (capacity, None)
    }
    found = zoo("synthetic", (capacity,), with_costs([policy, "lru", "opt"]), "engine")
    for row in found.rows:
        assert {name: row[name] for name in ("hit", *SAVED)} == recorded[row["policy"]]
    assert any(row["policy"] == policy for row in found.rows)


def test_libcachesim_is_compared_on_the_same_accesses() -> None:
    prefixes = load("synthetic").trace
    ids = stream(prefixes)
    assert len(oracle_general(ids)) == 24 * len(ids) == 24 * 121_877
    (row,) = (
        row
        for row in RECORD["beside"]
        if (row["trace"], row["capacity"], row["policy"]) == ("synthetic", 500, "lru")
    )
    assert row["single"] == row["libcachesim"] == block_hits(alone(ids), "lru", 500)
    assert row["prefix"] == block_hits(prefixes, "lru", 500)


def test_what_weighs_work_is_measured_with_the_cost_of_each_objective() -> None:
    weigh = [name for name in with_costs(policy.name for policy in BUILTIN) if ":" in name]
    assert len(weigh) == len(BLOCKS) * len({name.partition(":")[0] for name in weigh}) >= 2 * 8
    measured = {row["policy"] for row in RECORD["rows"]}
    assert {*weigh} <= measured


def test_the_page_says_which_policies_evicted_the_same() -> None:
    assert ["synthetic", "lru", "ttl"] in RECORD["same"]
    assert "`lru`, " in page(RECORD).partition("evicted the same blocks throughout.")[0]
