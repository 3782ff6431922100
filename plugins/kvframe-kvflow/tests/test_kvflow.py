"""Steps, the order against a naive twin, workflows through a manager, and the kit."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from kvframe_kvflow import Options, StepsToExecution
from kvframe_kvflow.graph import steps
from kvframe_kvflow.workflows import hit_rate

import kvframe
from kvframe.cli import main
from kvframe.policies import Candidates
from kvframe.testing import EvictionConformance


class TestConformance(EvictionConformance):
    policy = "kvflow"
    budget_us = 2000.0  # suites run beside others; `kvframe bench check` holds it to 100


class TestConformanceOfARing(EvictionConformance):
    policy = "kvflow"
    options = {"successors": [[1], [2], [0]]}  # noqa: RUF012
    budget_us = 2000.0


def test_steps_are_counted_in_turns() -> None:
    # 0 to 1 or 2, both to 3, that back to 0; 4 ends the workflow.
    table = steps([[1, 2], [3], [3], [0, 4], []], 99)
    assert table[0].tolist() == [3, 1, 1, 2, 3, 99]
    assert table[3].tolist() == [1, 2, 2, 3, 1, 99]
    assert table[4].tolist() == [99] * 6
    assert table[5].tolist() == [99] * 6


def twin(graph: list[list[int]], others: int, rows: list[tuple[int, int, int]]) -> list[int]:
    """Places of (last use, workflow, agent) in the order of death, one row at a time."""

    def distance(start: int, goal: int) -> int:
        if start >= len(graph) or goal >= len(graph):
            return others
        reached, turn = set(graph[start]), 1
        while goal not in reached:
            further = reached | {follower for agent in reached for follower in graph[agent]}
            if further == reached:
                return others
            reached, turn = further, turn + 1
        return turn

    def key(place: int) -> tuple[int, int, int]:
        last_use, flow, agent = rows[place]
        latest = max(i for i, row in enumerate(rows) if row[1] == flow and row[0] == newest[flow])
        ahead = others if flow == 0 else distance(rows[latest][2], agent)
        return -ahead, last_use, place

    newest: dict[int, int] = {}
    for last_use, flow, _ in rows:
        newest[flow] = max(newest.get(flow, 0), last_use)
    return sorted(range(len(rows)), key=key)


@pytest.mark.parametrize("seed", range(200))
def test_equals_the_twin(seed: int) -> None:
    dice = random.Random(seed)
    agents = dice.randint(0, 6)
    graph = [
        sorted(dice.sample(range(agents), dice.randint(0, min(agents, 2)))) for _ in range(agents)
    ]
    others = dice.choice([0, 3, 1024])
    rows = [
        (dice.randrange(40), dice.randrange(4), dice.randrange(8))
        for _ in range(dice.randint(1, 60))
    ]
    last_use, session, request_class = np.array(rows).T
    columns: dict[str, Any] = {
        "last_use": last_use.astype(np.uint64),
        "session": session.astype(np.uint64),
        "request_class": request_class.astype(np.uint32),
    }
    scores = np.empty(len(rows))
    policy = StepsToExecution(Options(successors=graph, others=others))
    policy.score(Candidates(50, 16, columns), scores)
    assert np.argsort(scores, kind="stable").tolist() == twin(graph, others, rows)


# As in README.md; 512 blocks hold all prompts.
MEASURED = {128: (0.0, 0.0245), 256: (0.0041, 0.1817), 512: (0.2827, 0.5863)}


@pytest.mark.parametrize("capacity", MEASURED)
def test_agents_in_a_ring(capacity: int) -> None:
    lru, kvflow = MEASURED[capacity]
    assert hit_rate("lru", capacity) == pytest.approx(lru, abs=5e-5)
    assert hit_rate("kvflow", capacity) == pytest.approx(kvflow, abs=5e-5)


def test_without_agents_it_is_lru_to_the_token() -> None:
    args = ["bench", "run", "--policy", "kvflow,lru", "--capacity", "2000", "--format", "json"]
    result = CliRunner().invoke(main, [*args, "--trace", "synthetic"])
    assert result.exit_code == 0, result.stderr
    one, other = json.loads(result.stdout)["cells"]
    assert one["policy"] == "kvflow"
    assert one["hit_tokens"] == other["hit_tokens"]


@pytest.mark.parametrize("successors", [[[1]], [[0], [-1]]])
def test_an_agent_that_is_not_there_is_refused(successors: list[list[int]]) -> None:
    with pytest.raises(kvframe.ConfigError, match=r"names agent .*: there are 0 to"):
        kvframe.KVCacheManager.from_toml(
            eviction={"policy": "kvflow", "options": {"successors": successors}}
        )
