"""``kvframe events``, and recordings as traces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe import TraceError
from kvframe.bench import traces
from kvframe.cli import main
from kvframe.traces.recorded import rows
from kvframe.wire import Announcer, BlockRemoved, BlockStored, Event, Publisher, encode
from kvframe.wire.recording import Recorder, is_recording, recorded

from ..signals import hears_interrupts
from .traffic import BLOCK, Traffic

ANY = "tcp://127.0.0.1:*"


def run(*args: str, stdin: str = "") -> Result:
    """``kvframe events``, in this process."""
    return CliRunner().invoke(main, ["events", *args], input=stdin, prog_name="kvframe")


def announced(traffic: Traffic, publisher: Publisher, requests: int) -> str:
    announcer = Announcer(traffic.kv, publisher)
    for _ in range(requests):
        traffic.serve()
        announcer.flush()
    return f"{publisher.endpoint},{publisher.replay}"


def test_tail_prints_events_as_lines_and_as_json() -> None:
    with Publisher(ANY, ANY) as publisher:
        publisher.publish([BlockStored([1, 2], None, [5] * 8, 4, None, "GPU", None)])
        publisher.publish([BlockRemoved([2], "GPU")])
        ends = f"{publisher.endpoint},{publisher.replay}"
        told = run("tail", ends, "--count", "2")
        objects = run("tail", ends, "--count", "1", "--json")
    assert told.stdout.splitlines() == [
        "worker 0 rank 0 batch 0: stored 0000000000000001 0000000000000002: 8 tokens (GPU)",
        "worker 0 rank 0 batch 1: removed 0000000000000002 (GPU)",
    ]
    row = json.loads(objects.stdout)
    assert (row["event"], row["block_hashes"], row["token_ids"]) == ("stored", [1, 2], [5] * 8)


def test_index_answers_prompts_on_standard_input() -> None:
    traffic = Traffic()
    with Publisher(ANY, ANY) as publisher:
        ends = announced(traffic, publisher, 50)
        asked = "".join(json.dumps({"token_ids": prompt}) + "\n" for prompt in traffic.prompts)
        done = run("index", ends, "--block-size", str(BLOCK), stdin=asked)
        wrong = run("index", ends, "--block-size", "4", stdin='{"token_ids": 5}\n')
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for prompt, answer in zip(traffic.prompts, answers, strict=True):
        has = traffic.kv.lookup([*prompt, 1_000_000]).tokens // BLOCK
        assert answer.get("0", {"gpu": 0})["gpu"] == has
    assert " 0 missed, 0 resets" in done.stderr
    assert (wrong.exit_code, wrong.stderr.count("<stdin>:1:")) == (2, 1)


@pytest.mark.parametrize("name", ["run.kvevents", "run.kvevents.gz"])
def test_a_recording_is_a_trace(tmp_path: Path, name: str) -> None:
    traffic = Traffic(capacity=10_000)
    file = tmp_path / name
    with Publisher(ANY, ANY) as publisher:
        ends = announced(traffic, publisher, 60)
        total = publisher.counts().published
        done = run("record", str(file), ends, "--count", str(total))
        again = run("record", str(file), ends, "--count", "1")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"wrote {file}: {total} batches\n"
    assert (again.exit_code, "File exists" in again.stderr) == (2, True)
    assert os.stat(file).st_mode & 0o77 == 0
    source = traces.load(str(file))
    assert source.time_unit == "ms"
    found = [json.loads(line) for line in rows(file.read_bytes(), "run").splitlines()]
    # Nothing was evicted, so each distinct block of a prompt was stored, and got an id, once.
    blocks = {tuple(p[: at + BLOCK]) for p in served(traffic) for at in full(p)}
    assert {at for row in found for at in row["hash_ids"]} == set(range(len(blocks)))
    bench = CliRunner().invoke(main, ["bench", "run", "--trace", str(file), "--policy", "lru"])
    assert bench.exit_code == 0, bench.stderr


def test_a_recording_says_that_nothing_comes_and_ends_when_it_is_interrupted(
    tmp_path: Path,
) -> None:
    file = tmp_path / "run.kvevents"
    with Publisher(ANY, ANY) as publisher:
        ends = f"{publisher.endpoint},{publisher.replay}"
        command = [sys.executable, "-m", "kvframe", "events", "record", str(file), ends]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, preexec_fn=hears_interrupts
        ) as recording:
            assert recording.stderr is not None
            assert recording.stderr.readline() == (
                f"nothing has come from {ends}: does the server publish (--kv-events-config), "
                "and serve requests?\n"
            )
            # More than is held back before it is written.
            publisher.publish([BlockStored([1], None, [5] * 40_000, 40_000, None, "GPU", None)])
            until = time.monotonic() + 60
            while file.stat().st_size < 40_000 and time.monotonic() < until:
                time.sleep(0.2)
            recording.send_signal(signal.SIGINT)
            _, told = recording.communicate(timeout=30)
    assert told == f"wrote {file}: 1 batches\n"
    assert recording.returncode == 0
    assert len(list(recorded(file.read_bytes(), "run"))) == 1


def served(traffic: Traffic) -> list[list[int]]:
    """Prompts whose blocks are all cached."""
    return [
        prompt
        for prompt in traffic.prompts
        if traffic.kv.lookup([*prompt, 1_000_000]).tokens == len(prompt) // BLOCK * BLOCK
    ]


def full(prompt: list[int]) -> range:
    return range(0, len(prompt) // BLOCK * BLOCK, BLOCK)


def written(path: Path, batches: list[tuple[float, list[Event]]]) -> bytes:
    with Recorder(path) as recorder:
        for number, (time, events) in enumerate(batches):
            recorder.write(3, number, encode(events, time=time, rank=1))
    return path.read_bytes()


def stored(hashes: list[int], parent: int | None, *ids: int, **more: Any) -> BlockStored:
    event = BlockStored([*hashes], parent, [i for i in ids for _ in range(4)], 4, None, "GPU", None)
    for name, value in more.items():
        setattr(event, name, value)
    return event


def test_chunks_are_one_request_and_turns_are_two(tmp_path: Path) -> None:
    data = written(
        tmp_path / "run",
        [
            (10.0, [stored([1, 2], None, 1, 2)]),
            (10.5, [stored([3], 2, 3), stored([1], None, medium="CPU")]),
            (11.0, [stored([9], 1, 9)]),
            (20.0, [stored([4], 3, 4), BlockRemoved([9], "GPU")]),
            # The same content under other hashes, as after a restart; and another group's blocks.
            (30.0, [stored([101, 102], None, 1, 2), stored([5], None, 1, group_idx=1)]),
        ],
    )
    found = [json.loads(line) for line in rows(data, "run").splitlines()]
    assert [row["hash_ids"] for row in found] == [[0, 1, 2], [0, 3], [0, 1, 2, 4], [0, 1]]
    assert [row["timestamp"] for row in found] == [0, 1000, 10_000, 20_000]
    assert [row["input_length"] for row in found] == [12, 8, 16, 8]


def test_recordings_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    data = written(tmp_path / "run", [(1.0, [stored([1], None, 1)])] * 2)
    assert is_recording(data)
    assert len(list(recorded(data[:-3], "run"))) == 1
    for broken, message in (
        (b"#kvframe-events 9\n", "version '9': must be 1"),
        (b"{}\n", "is no recording"),
        (data[:18] + b"\xff" * 8, "damaged: a batch of"),
        (data[:22] + b"\xc1" + data[23:], "damaged: "),
        (b"\x1f\x8b123", "gzip data is damaged"),
        (written(tmp_path / "none", [(1.0, [])]), "stores no block"),
        (
            written(tmp_path / "sizes", [(1.0, [stored([1], None), stored([2], 1, block_size=8)])]),
            "blocks of 4 and 8 tokens",
        ),
    ):
        with pytest.raises(TraceError, match=message):
            rows(broken, "run")
