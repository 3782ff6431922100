"""Admission in a replay: the same policy, built in and in Python, drops the same blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import _core
from kvframe.drivers.admission import AdmissionDriver
from kvframe.drivers.asker import Terms
from kvframe.errors import PolicyError
from kvframe.policies import BatchedAdmission

from ..manager.gates import UsedTwice, gates
from .traces import replay, trace


def driver(make: Any, name: str = "mine", strict: bool = True) -> AdmissionDriver:
    return AdmissionDriver(gates(name, lambda _: make()).admission(name), Terms(512, strict=strict))


@pytest.mark.parametrize("mode", ["trace", "engine"])
def test_one_meaning(mode: str) -> None:
    options = {"uses": 2, "remember": 2**24}
    built_in = _core.replay(
        trace("synthetic"),
        "lru",
        1_000,
        mode,
        log=True,
        admission="second-use",
        admission_options=options,
    )
    mine = _core.replay(
        trace("synthetic"), "lru", 1_000, mode, log=True, admission=driver(UsedTwice)
    )
    assert mine["admission_failures"] == 0
    assert mine["admission_dropped"] == built_in["admission_dropped"] > 10_000
    stored = [r["events"]["key"][r["events"]["kind"] == 4] for r in (mine, built_in)]
    assert np.array_equal(*stored)
    assert mine["hit_tokens"] == built_in["hit_tokens"]


def test_always_is_no_policy() -> None:
    got = _core.replay(trace("synthetic"), "lru", 1_000, "engine", admission="always")
    assert got["hit_tokens"] == replay("synthetic", "lru", 1_000, "engine")["hit_tokens"]
    assert (got["admission_kept"], got["admission_dropped"]) == (0, 0)


class Broken(BatchedAdmission):
    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        raise ValueError("no idea")


def test_a_replay_stops_where_its_policy_fails() -> None:
    with pytest.raises(PolicyError, match="no idea"):
        _core.replay(trace("synthetic"), "lru", 1_000, "engine", admission=driver(Broken))


def test_or_keeps_everything_if_it_may() -> None:
    with pytest.warns(RuntimeWarning, match="everything is kept"):
        got = _core.replay(
            trace("synthetic"),
            "lru",
            1_000,
            "engine",
            admission=driver(Broken, "broken-gate", strict=False),
        )
    assert got["admission_failures"] > 1_000
    assert got["hit_tokens"] == replay("synthetic", "lru", 1_000, "engine")["hit_tokens"]
