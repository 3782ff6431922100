"""Metrics, each against a count by hand; and one that is added."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import click
import numpy as np
import pytest

from kvframe.bench import render
from kvframe.bench.metrics import BUILTIN, Served, choose
from kvframe.bench.outcomes import RequestFacts, RequestOutcomes
from kvframe.cli.bench import run
from kvframe.errors import PluginError

from .made import ran, write

TOKENS = np.array([100, 50, 200, 10], np.uint32)
HITS = np.array([32, 0, 160, 0], np.uint32)
SERVED = Served(
    RequestFacts(TOKENS, np.array([0, -1, 0, 1]), np.arange(4)),
    RequestOutcomes(HITS, np.array([0, 16, 0, 0], np.uint32), np.array([1.0, 2, np.nan, 4])),
    16,
)


def named(name: str) -> float:
    (found,) = (one for one in BUILTIN if one.name == name)
    return found(SERVED)


def test_definitions() -> None:
    assert named("any_block_hit_rate") == (32 + 160 + 16) / 360
    assert named("requests_with_holes") == 1 / 4
    by_position = sum(sum(range(1, h + 1)) for h in (32, 160))
    assert named("compute_saved_position") == pytest.approx(
        by_position / sum(n * (n + 1) / 2 for n in (100, 50, 200, 10))
    )

    def cost(blocks: int) -> int:
        return sum(865 + 2 * at for at in range(blocks))

    whole = Served(
        RequestFacts(np.array([160], np.uint32), np.array([-1]), np.arange(1)),
        RequestOutcomes(np.array([64], np.uint32), np.zeros(1, np.uint32)),
        16,
    )
    (thirty,) = (one for one in BUILTIN if one.name == "compute_saved_30b")
    assert thirty(whole) == pytest.approx(cost(4) / cost(10))
    # Sessions 0 (192 of 300), 1 (0 of 10), and a request of its own (0 of 50).
    assert named("session_hit_rate_p50") == 0
    assert named("session_hit_rate_p90") == named("session_hit_rate_p99") == 192 / 300
    assert (named("ttft_seconds_p50"), named("ttft_seconds_p99")) == (2, 4)


def test_each_has_its_definition_in_the_help_and_on_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "bench.md"
    told = " ".join(page.read_text().split())
    (option,) = (one for one in run.params if one.name == "metrics")
    assert isinstance(option, click.Option)
    assert option.help is not None
    for one in BUILTIN:
        assert f"{one.name}: {one.definition}." in option.help
        assert f"| `{one.name}` | {one.unit} | {one.definition} |" in told, one.name


OWN = """
from kvframe.bench.metrics import metric

@metric("long_hits", "share of requests", "requests of which 48 tokens or more hit")
def long_hits(served):
    return float((served.outcomes.hit_tokens >= 48).mean())

nothing = 3
"""


def test_one_of_your_own(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(OWN)
    trace = write(tmp_path / "made.jsonl")
    place = f"{tmp_path / 'ours.py'}:long_hits"
    _, outcome = ran(traces=str(trace), policies="lru", capacities="100", metrics=place)
    cells = [cell for plan, cell in outcome.cells.items() if plan.label == "lru"]
    hits = next(o for plan, o in outcome.requests.items() if plan.label == "lru").hit_tokens
    assert cells[0].metrics["long_hits"] == (hits >= 48).mean()
    assert cells[0].metrics["ttft_seconds_p50"] is None
    (row, *_) = csv.DictReader(io.StringIO(render.comma_separated(cells)))
    assert float(row["long_hits"]) == (hits >= 48).mean()
    assert "miss_cold" in row
    with pytest.raises(PluginError, match="must be a kvframe"):
        choose([f"{tmp_path / 'ours.py'}:nothing"])


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(PluginError, match="did you mean requests_with_holes"):
        choose(["request_with_holes"])


def test_nothing_is_no_number() -> None:
    empty = np.zeros(0, np.uint32)
    served = Served(
        RequestFacts(empty, np.zeros(0, np.int64), np.zeros(0, np.int64)),
        RequestOutcomes(empty, empty),
        16,
    )
    assert all(math.isnan(one(served)) for one in BUILTIN)
