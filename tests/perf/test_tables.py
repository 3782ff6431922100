"""The commands that write tables into pages measure what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from perf.pages import write
from perf.sessions import NONE, turns_of
from perf.workloads import SIZE, made, rows

from kvframe import _core
from kvframe.bench.traces import load
from perf import facts, hints, hybrids, orders


def chat() -> _core.Trace:
    return _core.Trace.parse(b"".join(rows(made("chat", 0)[:900])), "chat", SIZE)


def test_turns_are_those_that_rows_name_or_prompts_tell() -> None:
    agent = turns_of(load("agent").trace)
    assert len(set(agent.session.tolist())) == 100
    assert (agent.pause == NONE).sum() == 100, "each session ends once"
    trace = chat()
    told = turns_of(trace)
    for at in np.flatnonzero(told.following != NONE)[:200]:
        _, tokens, _, _, nodes = trace.request(int(at))
        full, after = tokens // SIZE, trace.request(int(told.following[at]))[4]
        assert after[:full] == nodes[:full]
        assert told.turn[told.following[at]] == told.turn[at] + 1


def test_a_served_trace_hits_what_a_replay_hits() -> None:
    trace = chat()
    for policy in ("lru", "lfu"):
        plain = hints.replay(trace, turns_of(trace), 300, hints.Hints("", policy))
        same = _core.replay(trace, policy, 300, "engine", per_request=True)
        assert np.array_equal(plain, same["request_hit_tokens"]), policy


def test_hints_add_hits_and_less_the_worse_they_are() -> None:
    trace = chat()
    turns = turns_of(trace)
    hits = [
        int(hints.replay(trace, turns, 300, choice).sum())
        for choice in (
            hints.Hints("lru"),
            hints.Hints("ended", ended=True),
            hints.Hints("wrong", returns=1.0),
            hints.Hints("right", returns=0.0),
        )
    ]
    assert hits[0] < hits[1]
    assert hits[2] < hits[3]
    assert hits[0] < hits[3]


def test_a_session_that_returns_soon_is_worth_more_and_nothing_is_kept_for_ever() -> None:
    kept = [hints.kept(pause) for pause in (0, 1_000, 60_000, 3_600_000, 10**9)]
    priorities = [keep.priority for keep in kept]
    assert priorities == sorted(priorities, reverse=True)
    assert (priorities[0], priorities[-1]) == (60, 36)
    assert all(keep.duration is not None and keep.then == 35 for keep in kept)


def test_a_fact_that_a_policy_does_not_go_by_changes_nothing() -> None:
    trace = chat()
    turns = turns_of(trace)

    def hits(policy: str, without: str = "") -> list[int]:
        return list(map(int, facts.at_plug_point(trace, turns, policy, 300, without)))

    assert hits("lru", "session") == hits("lru", "place") == hits("lru")
    assert hits("session") != hits("session", "turn")
    assert hits("longest-first", "session") == hits("longest-first") != hits("lru")
    told = facts.told_trace(trace, turns)
    assert facts.in_manager(told, "lru", 300).tolist() == hits("lru"), "tails go first in both"


def test_an_order_is_beside_the_first_of_its_group() -> None:
    cells = [orders.served("synthetic", "lru", "0.25", o, "last-admitted") for o in orders.WAITING]
    rows = [orders.row(cell, cells[0], o) for cell, o in zip(cells, orders.WAITING, strict=True)]
    assert all("%" not in text for text in rows[0])
    assert float(cells[3].ttft_mean or 0) < float(cells[0].ttft_mean or 0)
    assert "(-" in rows[3][4]


def test_pairs_share_their_beginning_with_one_other_prompt() -> None:
    prompts = hybrids.pairs(heads=3, head=2, tail=1)
    assert [prompt[:2] for prompt in prompts] == [[0, 1], [2, 3], [0, 1], [4, 5], [2, 3]]
    assert len({prompt[2] for prompt in prompts}) == len(prompts)


def test_only_what_stands_between_the_comments_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    mark = "<!-- written by: python -m perf.mine -->\n"
    page.write_text(f"before\n\n{mark}old\n<!-- to here -->\n\nafter <!-- to here -->\n")
    write(page, "perf.mine", "new")
    told = f"before\n\n{mark}\nnew\n\n<!-- to here -->\n\nafter <!-- to here -->\n"
    assert page.read_text() == told
    with pytest.raises(ValueError, match="unpack"):
        write(page, "perf.other", "new")
