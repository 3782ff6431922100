"""Recorded sessions that begin at other times, and more than once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.server.workload import drawn, parse_workload
from kvframe.errors import ConfigError

from .conftest import Command

BLOCK = 512


def recorded(folder: Path) -> str:
    """Two sessions of three and of one turn, whose prompts begin with the same block."""
    rows = [
        ("a", 1_000, 1024, 10, [0, 1]),
        ("b", 1_500, 1024, 20, [0, 7]),
        ("a", 3_000, 1536, 11, [0, 1, 2]),
        ("a", 9_000, 2048, 12, [0, 1, 2, 3]),
    ]
    names = ("session_id", "timestamp", "input_length", "output_length", "hash_ids")
    path = folder / "sessions.jsonl"
    path.write_text("".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows))
    return str(path)


def served(folder: Path, **keys: Any) -> list[tuple[int, int, int, int | None, list[int]]]:
    work = parse_workload({"sessions": recorded(folder), **keys}, "here")
    assert work.is_closed
    trace = drawn(work, "here").trace
    assert trace.block_size == BLOCK
    return [trace.request(at) for at in range(trace.requests)]


def test_sessions_begin_one_after_the_other_with_their_own_gaps(tmp_path: Path) -> None:
    rows = served(tmp_path, arrivals="uniform", rate=0.1, num_sessions=3, requests=99)
    told = [(time, tokens, answer, session) for time, tokens, answer, session, _ in rows]
    assert told == [
        (0, 1024, 10, 0),
        (2_000, 1536, 11, 0),
        (8_000, 2048, 12, 0),
        (10_000, 1024, 20, 1),
        (20_000, 1024, 10, 2),
        (22_000, 1536, 11, 2),
        (28_000, 2048, 12, 2),
    ]
    chains = [blocks for *_, blocks in rows]
    # A session goes on from itself, and the first block is everybody's.
    assert chains[1][:2] == chains[0]
    assert len({chain[0] for chain in chains}) == 1
    # The second time that it begins, what it had alone is new.
    assert set(chains[2][1:]).isdisjoint(chains[6][1:])


def test_as_many_begin_as_requests_asks_for(tmp_path: Path) -> None:
    assert len(served(tmp_path, arrivals="batched", requests=50)) == 50
    late = served(tmp_path, arrivals="uniform", rate=1.0, seconds=2.5, requests=50)
    assert {session for *_, session, _ in late} == {0, 1, 2}


def test_sessions_are_drawn_with_the_seed(tmp_path: Path) -> None:
    how: dict[str, Any] = {"arrivals": "uniform", "num_sessions": 400, "requests": 10_000}
    rows = served(tmp_path, resample=True, seed=1, **how)
    short = sum(answer == 20 for _, _, answer, _, _ in rows)
    assert 160 < short < 240
    assert rows == served(tmp_path, resample=True, seed=1, **how)
    assert rows != served(tmp_path, resample=True, seed=2, **how)


def test_stationary_sessions_begin_where_their_time_goes(tmp_path: Path) -> None:
    how: dict[str, Any] = {"arrivals": "uniform", "rate": 0.01, "requests": 10_000}
    rows = served(tmp_path, stationary_sessions=400, num_sessions=401, **how)
    first = {session: row for *row, session, _ in reversed(rows)}
    # All but the last begin at once. Of three turns the last two come after 2 and 6 seconds.
    assert [time for time, *_ in first.values()].count(0) == 401
    begun = [answer for _, _, answer in first.values()]
    assert begun.count(20) == 200
    assert 130 < begun.count(12) < 170
    assert begun.count(11) + begun.count(12) == 200


def test_users_take_sessions_one_after_the_other(tmp_path: Path) -> None:
    rows = served(tmp_path, arrivals="closed", users=2, num_sessions=4, requests=99)
    assert [(row[0], row[2], row[3]) for row in rows if row[3] == 0] == [
        (0, 10, 0),
        (2_000, 11, 0),
        (8_000, 12, 0),
        (8_000, 10, 0),
        (10_000, 11, 0),
        (16_000, 12, 0),
    ]
    assert [row[0] for row in rows if row[3] == 1] == [0, 0]


def test_an_experiment_of_recorded_sessions(bench: Command, tmp_path: Path) -> None:
    recorded(tmp_path)
    text = """
[workload]
sessions = "sessions.jsonl"
resample = true
stationary_sessions = 4
requests = 40

[serve]
policy = ["lru"]
capacity = [20]
"""
    (tmp_path / "some.toml").write_text(text)
    done = bench("experiment", "some.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2].split()[:2] == ["some", "lru"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"turns": 3}, "workload.turns: is recorded in sessions = "),
        (
            {"stationary_sessions": -1},
            "workload.stationary_sessions = -1: must be between 0 and 1000",
        ),
        ({"sessions": "", "resample": True}, "workload.resample: goes with sessions"),
        ({"jitter": 9.0}, 'workload.jitter: goes with arrivals = "closed", not "poisson"'),
        ({"arrivals": "closed", "burst": 3}, "workload.burst: goes with arrivals = "),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_workload({"sessions": recorded(tmp_path), **keys}, "here")
    assert message in str(refused.value)


def test_a_trace_without_sessions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": [1]}\n')
    work = parse_workload({"sessions": str(path)}, "here")
    with pytest.raises(ConfigError, match="it names no sessions"):
        drawn(work, "here")
