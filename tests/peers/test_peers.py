"""kvframe beside vLLM: always against what vLLM answered once, and live where it is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.peers.compare import RECORD, Theirs, different, run_traces, see, unexplained
from tests.peers.ours import Ours


@pytest.mark.scenario("VT1", "VT2", "VT3", "VT5", "VT6", "VT7", "VT8", "VT10", "VT11", "VT12")
@pytest.mark.scenario("VT13", "VT15", "VT16", "VT27", "VT34", "VT38", "VT44", "VT47", "VT49")
@pytest.mark.scenario("VT57")
def test_answers_are_those_that_vllm_gave_or_listed() -> None:
    seen: dict[str, Any] = json.loads(RECORD.read_text())["seen"]
    assert unexplained(different(see(Ours()), seen)) == []


def test_an_unlisted_and_a_vanished_difference_are_told() -> None:
    listed = {"VT7: again": (1, 2), "VT13: while used": (True, False), "VT13: then": (0, 48)}
    assert unexplained(listed) == []
    assert unexplained({**listed, "VT1: first": (1, 2)}) == ["VT1: first: kvframe 1, vLLM 2"]
    del listed["VT7: again"]
    assert unexplained(listed) == ["VT7: again: listed, and equal now"]


def test_the_record_is_what_vllm_answers(theirs: Theirs) -> None:
    assert json.loads(RECORD.read_text()) == {"peer": theirs.name, "seen": see(theirs)}


def test_random_traces_hit_alike_or_for_a_listed_reason(theirs: Theirs) -> None:
    _, wrong = run_traces(theirs)
    assert wrong == []
