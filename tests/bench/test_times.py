"""Times of a trace and of its first tokens: their unit, their mean, their quantile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvframe import _core
from kvframe.bench.traces import load

from .conftest import Command


def bailian(at: float, tokens: int, ids: list[int]) -> str:
    """A row of Qwen-Bailian's form, whose times are in seconds."""
    row = {"chat_id": 1, "parent_chat_id": -1, "timestamp": at, "input_length": tokens}
    return json.dumps({**row, "output_length": 1, "type": "text", "turn": 1, "hash_ids": ids})


def mooncake(at: float, tokens: int, ids: list[int]) -> str:
    row = {"timestamp": at, "input_length": tokens, "output_length": 1, "hash_ids": ids}
    return json.dumps(row)


@pytest.mark.scenario("F24")
@pytest.mark.parametrize(
    ("tokens", "late"),
    [
        ([50_000], 1),
        ([50_000] * 2, 2),
        ([50_000] * 20, 19),
        ([50_000] * 21, 20),
        ([500] * 100, 0.95),
    ],
)
def test_the_95th_percentile_is_by_nearest_rank(tokens: list[int], late: float) -> None:
    """A server that computes 50,000 tokens a second gets all of them at once."""
    rows = [mooncake(0, n, [1000 * i + j for j in range(n // 500)]) for i, n in enumerate(tokens)]
    trace = _core.Trace.parse("\n".join(rows).encode(), "t", 500)
    got = _core.replay(trace, "lru", None, "timed")
    assert got["p95_ttft_seconds"] == pytest.approx(late)
    assert got["mean_ttft_seconds"] == pytest.approx(
        sum(tokens) / 50_000 * (len(tokens) + 1) / 2 / len(tokens)
    )


AT = [0.007, 0.079, 0.112, 61.172]


Row = Callable[[float, int, list[int]], str]


def write(path: Path, row: Row, factor: float) -> None:
    lines = [row(round(at * factor, 3), 500, [i]) for i, at in enumerate(AT)]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.scenario("F24")
@pytest.mark.parametrize(
    ("row", "factor", "unit", "doubt"),
    [
        (bailian, 1, None, ""),
        (mooncake, 1000, None, ""),
        (bailian, 1000, "ms", ""),
        (mooncake, 1, "s", ""),
        (bailian, 1000, None, "whole numbers are read as seconds"),
        (mooncake, 1, None, "times with fractions are read as milliseconds"),
    ],
)
def test_the_form_says_the_unit(
    tmp_path: Path, row: Row, factor: float, unit: str | None, doubt: str
) -> None:
    write(tmp_path / "t.jsonl", row, factor)
    if factor == 1000:
        text = (tmp_path / "t.jsonl").read_text().replace(".0,", ",")
        (tmp_path / "t.jsonl").write_text(text)
    source = load(str(tmp_path / "t.jsonl"), 500, unit)
    assert source.doubt.startswith(doubt)
    assert bool(source.doubt) == bool(doubt)
    if not doubt:
        times = [source.trace.request(i)[0] for i in range(len(AT))]
        assert times == [7, 79, 112, 61_172]
        got = _core.replay(source.trace, "lru", 100, "timed")
        assert got["mean_ttft_seconds"] == pytest.approx(0.01), "none of them waits"


@pytest.mark.scenario("F24")
def test_a_doubt_is_said_once_where_times_count(bench: Command, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", mooncake, 1)
    asked = ["run", "--trace", "t.jsonl", "--block-size", "500", "--policy", "lru"]
    asked += ["--capacity", "9", "--format", "json", "--out", "kept"]
    told = "warning: t.jsonl: times with fractions are read as milliseconds; if they are seconds, "
    assert bench(*asked, "--mode", "engine").stderr == ""
    timed = bench(*asked, "--mode", "timed")
    assert timed.stderr.startswith(told)
    assert bench(*asked, "--mode", "timed", "--quiet").stderr == ""
    # Another unit is another cell.
    given = bench(*asked, "--mode", "timed", "--time-unit", "s")
    assert given.stderr == ""
    means = [json.loads(done.stdout)["cells"][0]["mean_ttft_seconds"] for done in (timed, given)]
    assert means == [pytest.approx(0.0175), pytest.approx(0.01)]
    assert bench(*asked, "--time-unit", "min").returncode == 2


@pytest.mark.scenario("F24")
def test_rows_of_two_forms_are_refused(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(f"{bailian(0.5, 500, [1])}\n{mooncake(700, 500, [2])}\n")
    done = bench("run", "--trace", "t.jsonl", "--block-size", "500")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "t.jsonl:2: rows with chat_id and parent_chat_id have their times in seconds" in done.stderr
    )
