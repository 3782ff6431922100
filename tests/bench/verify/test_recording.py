"""What is noted of an engine, and the files that it becomes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvframe.bench.verify.engine import Done, find
from kvframe.bench.verify.files import write_requests, write_steps, write_trace
from kvframe.bench.verify.predict import Felt, fitted, pace, predicted, trace_of
from kvframe.bench.verify.recording import StepRow, record, record_all
from kvframe.bench.verify.workload import TURNS, Chat, chats, spread
from kvframe.calibrate import Profile, Requests, Steps
from tests.bench.verify.scripted import STEP, TOKEN, Scripted

TERMS = Profile(1_000.0, (10.0, 5.0, 5.0, 2.0), 3.0, 0.5, 0.1, 0.0, (4.0, 8.0, 16.0))


def chat(arrives: int, first: int, pause: int = 100) -> Chat:
    return Chat(arrives, tuple(range(first, first + 8)), ((1, 2, 3), (4, 5)), (pause,), 3)


def test_a_recording_has_arrivals_tokens_and_steps_by_the_engines_clock() -> None:
    done = record(Scripted(), [chat(0, 10), chat(5, 20)])
    first, later = STEP + 11 * TOKEN, STEP + 4 * TOKEN
    one = first + 2 * STEP
    arrivals = [request.arrival for request in done.requests]
    assert arrivals == pytest.approx([0, 0.005, one + 0.1, 2 * one + 0.1])
    waits = [first, one - 0.005 + first, later, later]
    assert [request.ttft for request in done.requests] == pytest.approx(waits)
    assert done.busy == pytest.approx(first + first + later + later + 8 * STEP)
    assert len(done.steps) == 4 * 3
    # The second turn asks with the first, its answer and two tokens more; 12 of these are found.
    again = done.requests[2]
    assert again.prompt == (*done.requests[0].prompt, 0, 1, 2, 4, 5)
    assert (again.cached, done.requests[0].cached) == (12, 0)
    assert [replace(step, seconds=0.0) for step in done.steps[:2]] == [
        StepRow(prefill=11, pairs=66),
        StepRow(n_decode=1, kv_decode=12),
    ]
    assert [step.seconds for step in done.steps[:2]] == pytest.approx([first, STEP])


def test_engines_take_a_step_in_turn_each_on_its_own_clock() -> None:
    turns: list[str] = []

    class Noted(Scripted):
        def step(self) -> Done:
            turns.append(self.kv.inspect.resolved.eviction.name)
            return super().step()

    workload = [chat(0, 10), chat(5, 20)]
    both = record_all([Noted("lru"), Noted("slru", 5)], workload)
    assert turns[:4] == ["lru", "slru", "lru", "slru"]
    alone = [record(Scripted("lru"), workload), record(Scripted("slru", 5), workload)]
    assert [done.busy for done in both] == [done.busy for done in alone]
    assert [done.hit_rate for done in both] == [done.hit_rate for done in alone]
    assert both[0].hit_rate > both[1].hit_rate


def test_steps_count_as_what_a_profile_says() -> None:
    seconds = pace(TERMS)
    assert seconds(StepRow(prefill=6, n_decode=3, kv_decode=30, pairs=40)) == pytest.approx(
        (1_000 + 4 * 10 + 4 * 5 + 1 * 5 + 9 + 15 + 4) / 1e6
    )
    done = record(Scripted(), [chat(0, 10)], seconds)
    assert done.requests[0].ttft == pytest.approx(seconds(done.steps[0]))


def test_the_files_say_the_same(tmp_path: Path) -> None:
    engine = Scripted()
    done = record(engine, [chat(0, 10), chat(5, 10)])
    write_trace(tmp_path / "t.jsonl", done, 4)
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["timestamp"] for row in rows] == [0, 5, 100, 105]
    assert rows[0]["hash_ids"][:2] == rows[1]["hash_ids"][:2] == rows[2]["hash_ids"][:2]
    write_steps(tmp_path / "s.csv", [done])
    steps = Steps.read(tmp_path / "s.csv")
    assert steps.pairs.tolist() == pytest.approx([step.pairs for step in done.steps], rel=1e-3)
    assert steps.step_us.sum() / 1e6 == pytest.approx(done.busy)
    write_requests(tmp_path / "r.csv", record(engine, [chat(n, 10) for n in range(12)]))
    log = Requests.read(tmp_path / "r.csv")
    assert (len(log.arrival), log.output.max()) == (24, 3)


@pytest.mark.parametrize("policy", ["lru", "slru", "s3-fifo"])
@pytest.mark.parametrize("capacity", [20, 24, 28])
def test_preempted_requests_come_back_when_they_are_simulated_to(
    policy: str, capacity: int
) -> None:
    make = find("example")
    engine = make(policy, capacity)
    workload = spread(chats(20, engine), 0.25)
    done = record(make(policy, capacity), workload, pace(TERMS))
    simulated = predicted(trace_of(done, 8), policy, engine, capacity, TERMS)
    real = Felt.of(done)
    assert done.preemptions > 0
    assert simulated.cached.tolist() == real.cached.tolist()
    assert simulated.ttft == pytest.approx(real.ttft)


def test_a_simulation_finds_and_takes_what_the_engine_does() -> None:
    workload = spread(chats(12, Scripted()), 0.1, seed=3)
    assert [len(one.questions) for one in workload] == [TURNS] * 12
    terms = fitted([record(Scripted(), workload)])
    done = record(Scripted(), workload, pace(terms))
    simulated = predicted(trace_of(done, 4), "lru", Scripted(), 64, terms)
    real = Felt.of(done)
    assert simulated.cached.tolist() == real.cached.tolist()
    assert simulated.hit_rate == real.hit_rate > 0
    assert simulated.ttft == pytest.approx(real.ttft)
