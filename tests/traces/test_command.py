"""``kvframe trace``: figures, soundness, and traces made of traces."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kvframe import _core
from kvframe.bench.traces import ReadOptions, load, read

from .conftest import FORMS, Command, lines, row

ROWS = [
    row(0, 30, [1, 2, 3], type="chat", session_id="a"),
    row(5_000, 9, [], type="file"),
    row(90_000, 35, [1, 2, 4], type="chat", session_id="a"),
]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.jsonl"
    path.write_bytes(lines(*(one | {"block_size": 10} for one in ROWS)))
    return path


def info(kvframe: Command, *args: object) -> dict[str, Any]:
    done = kvframe("trace", "info", *args, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_info_counts(kvframe: Command, small: Path) -> None:
    found = info(kvframe, small)
    assert (found["requests"], found["sessions"], found["in_sessions"]) == (3, 1, 2)
    assert (found["input_tokens"], found["output_tokens"], found["span_seconds"]) == (74, 3, 90)
    assert (found["unique_blocks"], found["block_accesses"]) == (4, 6)
    assert (found["ceiling_hit_tokens"], found["same_session_tokens"]) == (20, 20)
    assert (found["enough_blocks"], found["all_blocks"]) == (2, 2)
    assert found["ages"] == [[131.072, 1.0]]
    assert {one["name"]: one["hit_tokens"] for one in found["classes"]} == {"chat": 20, "file": 0}


def test_info_for_people_has_sizes(kvframe: Command, small: Path) -> None:
    done = kvframe("trace", "info", small, "--bytes-per-token", 2**30)
    assert done.exit_code == 0
    assert "hits 0.2703 of the prompt tokens" in done.stdout
    assert "Policies no longer matter from 2 blocks (20.00 GiB) on" in done.stdout
    assert len(done.stdout.splitlines()) < 35
    assert "100% within 90 s." in done.stdout, "nothing comes again later than the trace is long"
    plain = kvframe("trace", "info", small)
    assert "GiB" in done.stdout
    assert "GiB" not in plain.stdout
    assert "note: " not in plain.stdout
    shape = "layers=2,kv_heads=1,head_dim=4,dtype=float16"
    assert info(kvframe, small, "--model-shape", shape)["bytes_per_token"] == 32


@pytest.mark.parametrize(("name", "mode"), [("conversation", "engine"), ("agent", "trace")])
def test_the_curve_is_what_lru_hits_when_replayed(kvframe: Command, name: str, mode: str) -> None:
    found, trace = info(kvframe, name, "--mode", mode), load(name).trace
    infinite = _core.replay(trace, "infinite", None, mode)
    assert found["ceiling_hit_tokens"] == infinite["hit_tokens"]
    for point in found["lru"][2:]:
        assert point["blocks"] >= found["longest_prompt"]
        replayed = _core.replay(trace, "lru", point["blocks"], mode)
        assert point["hit_tokens"] == replayed["hit_tokens"], point["blocks"]


def test_validate_exits_with_1_and_names_the_line(kvframe: Command, tmp_path: Path) -> None:
    assert kvframe("trace", "validate", FORMS / "bailian.jsonl").exit_code == 0
    path = tmp_path / "bad.jsonl"
    path.write_bytes(lines(row(0, 512, [1]), row(1, 5_120, [1])))
    done = kvframe("trace", "validate", path)
    assert done.exit_code == 1
    assert f"{path}:2: hash_ids has 1 ids, but input_length 5120" in done.stderr
    assert done.stdout == ""
    assert kvframe("trace", "validate", FORMS / "burstgpt.csv").exit_code == 1


@pytest.mark.parametrize(
    "ending", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.xz", ".jsonl.bz2", ".kvt.gz", ".lcsllm"]
)
def test_a_converted_trace_is_the_same(kvframe: Command, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    done = kvframe("trace", "convert", FORMS / "bailian.jsonl", "-o", out)
    assert done.exit_code == 0, done.output
    one, other = (read(str(path), ReadOptions()).trace for path in (FORMS / "bailian.jsonl", out))
    assert one.block_size == other.block_size
    for at in range(one.requests):
        before, after = one.request(at), other.request(at)
        assert (*before[:3], before[4]) == (*after[:3], after[4])
    sessions = [trace.columns()["session"].tolist() for trace in (one, other)]
    assert sessions[0] == sessions[1]
    if ending != ".kvt.gz":
        assert one.classes == other.classes


def test_libcachesims_forms_say_when_a_block_comes_again(
    kvframe: Command, small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.oracleGeneral"
    assert kvframe("trace", "convert", small, "-o", out).exit_code == 0
    found = list(struct.iter_unpack("<IQIq", out.read_bytes()))
    assert found == [
        (0, 0, 10, 4), (0, 1, 10, 5), (0, 2, 10, -1), (90, 0, 10, -1), (90, 1, 10, -1),
        (90, 3, 10, -1),
    ]  # fmt: skip
    assert kvframe("trace", "convert", small, "-o", "-", "--to", "libcachesim-csv").stdout == (
        "0,0,10\n0,1,10\n0,2,10\n90,0,10\n90,1,10\n90,3,10\n"
    )
    again = read(str(out), ReadOptions())
    assert (again.form, again.trace.requests) == ("oracle-general", 6)
    done = kvframe("trace", "convert", small, "-o", tmp_path / "out.parquet")
    assert done.exit_code == 2
    assert ".oracleGeneral" in done.stderr
    assert list(tmp_path.glob(".*")) == []


def test_a_sample_keeps_sessions_whole(kvframe: Command, tmp_path: Path) -> None:
    out = tmp_path / "some.jsonl"
    done = kvframe("trace", "sample", "agent", "-o", out, "--share", 0.2, "--seed", 3)
    assert done.exit_code == 0, done.output
    whole, some = load("agent").trace.columns(), load(str(out)).trace.columns()
    sizes = sorted(int((some["session"] == one).sum()) for one in set(some["session"].tolist()))
    of_all = [int((whole["session"] == one).sum()) for one in set(whole["session"].tolist())]
    assert 5 < len(sizes) < 40
    assert all(size in of_all for size in sizes)
    smaller = tmp_path / "fewer.jsonl"
    kvframe("trace", "sample", "agent", "-o", smaller, "--share", 0.1, "--seed", 3)
    assert set(smaller.read_text().splitlines()) <= set(out.read_text().splitlines())
    done = kvframe("trace", "sample", "conversation", "-o", out, "--share", 0.5, "--first", 100)
    assert "name no session" in done.stderr


def test_merged_traces_share_nothing(kvframe: Command, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.jsonl"
    done = kvframe("trace", "merge", small, small, "-o", out, "--gap", 60)
    assert done.exit_code == 0, done.output
    trace = load(str(out)).trace
    assert (trace.requests, trace.prepare("trace")["unique_blocks"]) == (6, 8)
    assert sorted(set(trace.columns()["session"].tolist())) == [-1, 0, 1]
    done = kvframe("trace", "merge", small, "conversation", "-o", out)
    assert (done.exit_code, "a trace has one size" in done.stderr) == (2, True)


def test_prefixes_are_made_up_by_rules_and_it_is_said(kvframe: Command, tmp_path: Path) -> None:
    out = tmp_path / "made.jsonl"
    done = kvframe("trace", "synth", FORMS / "burstgpt.csv", "-o", out, "--system", 160)
    assert done.exit_code == 0, done.output
    assert "prefixes made up: 1 system prompts of 160 tokens" in done.stderr
    source = read(str(out), ReadOptions())
    assert "not recorded: prefixes made up" in "; ".join(source.remarks)
    first, second = (source.trace.request(at)[4] for at in range(2))
    assert [a == b for a, b in zip(first, second, strict=False)].count(True) == 10
    turns = tmp_path / "turns.jsonl"
    kvframe("trace", "synth", FORMS / "copilot2026.jsonl.gz", "-o", turns, "--block-size", 4)
    assert read(str(turns), ReadOptions()).trace.block_size == 4
    done = kvframe("trace", "synth", FORMS / "bailian.jsonl", "-o", out)
    assert (done.exit_code, "has prefixes of its own" in done.stderr) == (2, True)
    assert kvframe("trace", "synth", "few-shot", "-o", out).exit_code == 0
    assert "few-shot was made up" in "; ".join(read(str(out), ReadOptions()).remarks)


def test_a_conversation_goes_on_from_its_last_prompt() -> None:
    from kvframe.traces import Row
    from kvframe.traces.synth import SynthRules, with_prefixes

    rows = [Row(at, length, 10, session_id="s") for at, length in enumerate([100, 160, 40, 200])]
    made = list(with_prefixes(rows, SynthRules(system_tokens=32, block_size=16)))
    ids = [list(row.hash_ids or ()) for row in made]
    assert [len(each) for each in ids] == [6, 10, 2, 12]
    assert ids[1][:6] == ids[0]  # it is longer than the prompt before it
    assert ids[2] == ids[0][:2]  # it is shorter: only the system prompt is left
    assert ids[3][:2] == ids[2]
    assert not set(ids[3][2:]) & set(ids[1][2:])


def test_a_block_size_that_rows_say_otherwise_is_told(kvframe: Command, tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    path.write_bytes(lines(row(0, 64, [1], block_size=64), row(9, 64, [2], block_size=64)))
    told = "--block-size 16 is ignored: the trace has blocks of 64"
    assert told in kvframe("trace", "info", path, "--block-size", 16).stderr
    assert "is ignored" not in kvframe("trace", "info", path, "--block-size", 64).stderr
    assert told in read(str(path), ReadOptions(block_size=16)).remarks
    path.write_bytes(lines(row(0, 32, [1, 2]), row(9, 32, [1, 3])))
    assert not any("is ignored" in one for one in read(str(path), ReadOptions(16)).remarks)


@pytest.mark.parametrize("command", ["info", "validate"])
def test_several_traces_are_for_merge(kvframe: Command, small: Path, command: str) -> None:
    done = kvframe("trace", command, small, small)
    assert done.exit_code == 2
    assert "one trace at a time; `kvframe trace merge` makes one of several" in done.stderr
