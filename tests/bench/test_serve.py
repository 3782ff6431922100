"""``kvframe bench serve``: its outputs, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.requests import RequestRow

from .conftest import Command

SERVER = ("--policy", "lru,fifo", "--capacity", "8")
TABLE = "num_tokens,n_decode,kv_decode,prefill_chunk,step_us\n"


def found(bench: Command, *args: object) -> list[dict[str, Any]]:
    done = bench("serve", *args, "--format", "json")
    assert done.returncode == 0, done.stderr
    cells: list[dict[str, Any]] = json.loads(done.stdout)["cells"]
    return cells


def test_a_table_ends_with_a_verdict_for_each_load(bench: Command, small: Path) -> None:
    done = bench("serve", "--trace", small.name, *SERVER, "--load", "1,1000", "--sla", "ttft=2s")
    assert (done.returncode, done.stderr) == (0, "")
    *_, slow, fast = done.stdout.splitlines()
    alike = "small.jsonl, load 1, 8 blocks: the choice among 2 policies does not matter, "
    assert slow.startswith(alike)
    assert slow.endswith("; the ranking survives step times of 0.7 and 1.4 times these.")
    assert fast.startswith("small.jsonl, load 1000, 8 blocks: ")
    assert "What users feel, TTFT and E2E in s, ITL in ms" in done.stdout
    assert "They are not measured." in done.stdout


def test_every_form_says_the_same(bench: Command, small: Path) -> None:
    cells = found(bench, "--trace", small, *SERVER)
    # Two policies, at three time factors.
    assert [(cell["policy"], cell["time_factor"]) for cell in cells] == [
        (policy, factor) for factor in (1.0, 0.7, 1.4) for policy in ("lru", "fifo")
    ]
    assert [list(cell) for cell in cells] == [list(ServerCell.__struct_fields__)] * 6
    text = bench("serve", "--trace", small, *SERVER, "--format", "csv").stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    shown = [name for name in ServerCell.__struct_fields__ if name != "seconds"]
    blank = {None: "", True: "True", False: "False"}
    for cell, line in zip(cells, lines, strict=True):
        for name in shown:
            value = cell[name]
            assert line[name] == (blank[value] if value in (None, True, False) else str(value)) or (
                float(line[name]) == value
            )
    first = msgspec.convert(cells[0], ServerCell)
    assert (first.requests, first.finished, first.rejected, first.unfinished) == (4, 4, 0, 0)
    # The prompts of 1,030 and 1,100 tokens find the two blocks, and the one, that they share.
    assert first.reused_tokens == 2048
    assert first.prefill_tokens == 1100 + 1030 + 512 + 1100 - 2048
    assert first.decode_tokens == 0


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_requests_go_to_a_file(bench: Command, small: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"requests.{suffix}"
    found(bench, "--trace", small, *SERVER, "--requests", path)
    text = path.read_text()
    if suffix == "csv":
        rows: Sequence[dict[str, Any]] = list(csv.DictReader(io.StringIO(text)))
    else:
        rows = [json.loads(line) for line in text.splitlines()]
    assert [list(row) for row in rows] == [list(RequestRow.__struct_fields__)] * 8
    assert [int(row["request"]) for row in rows] == [0, 1, 2, 3] * 2
    assert {row["fate"] for row in rows} == {"finished"}
    assert all(float(row["arrival"]) < float(row["end"]) for row in rows)


def test_what_does_not_fit_is_said_aloud(bench: Command, small: Path) -> None:
    cells = found(bench, "--trace", small, "--policy", "lru", "--capacity", "2")
    assert (cells[0]["finished"], cells[0]["rejected"], cells[0]["goodput"]) == (1, 3, None)
    done = bench("serve", "--trace", small, "--policy", "lru", "--capacity", "2")
    *_, last = done.stdout.splitlines()
    told = (
        "small.jsonl, load 1, 2 blocks: 3 requests rejected, larger than the pool; of the others, "
    )
    assert f"{told}one policy was tried, lru " in last


def test_a_card_says_the_capacity(bench: Command, small: Path) -> None:
    cells = found(bench, "--trace", small, "--policy", "lru", "--card", "h200")
    # 90 % of 141 GB, less 16 GB of weights, in blocks of 512 tokens of 128 KiB.
    assert cells[0]["capacity_blocks"] == (126_900_000_000 - 16_000_000_000) // (512 * 131_072)


def test_times_of_another_card_are_told(bench: Command, small: Path, tmp_path: Path) -> None:
    asked = ("serve", "--trace", small, "--policy", "lru", "--profile", "h200-8b", "--card")
    told = "Step times of h200-8b were measured on NVIDIA H200: --card l40s says what its memory"
    assert told in bench(*asked, "l40s").stdout
    assert "were measured on" not in bench(*asked, "h200:memory=282GB").stdout


def test_a_measured_table_gives_the_times(bench: Command, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(TABLE + "0,0,0,0,1000\n1000,0,0,1000,11000\n")
    cells = found(bench, "--trace", small, "--policy", "lru", "--capacity", "8", "--profile", path)
    # 1 ms, and 10 us for each token that is computed.
    computed = [1100, 6, 512, 76]
    assert cells[0]["ttft_mean"] == pytest.approx(sum(1e-3 + 1e-5 * n for n in computed) / 4)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--card", "h20"),
            "--card h20: must be one of a100, h100, h200, b200, l40s; did you mean",
        ),
        (("--card", "h200:memory=lots"), "memory = lots: must be bytes with a unit"),
        (("--card", "h200:ram=1GB"), "no key ram: memory, bandwidth, flops, flops_fp4"),
        (("--card", "h200", "--capacity", "8000"), "8,000 blocks of 512 tokens take 500.00 GiB"),
        (
            ("--card", "l40s", "--model-shape", "layers=80,kv_heads=8,head_dim=128,params=70e9"),
            "leaves no block of",
        ),
        (("--model-shape", "layers=32,kv_heads=8,head_dim=128"), "params is missing"),
        (("--model-shape", "layers=32,kv_heads=8,head_dim=128,params=x"), "params = x: must be a"),
        (("--profile", "roofine"), "h200-8b, FILE.csv or FILE.toml; did you mean roofline"),
        (("--profile", "roofline:wights=1"), "wights"),
        (("--profile", "none.csv"), "--profile none.csv: No such file or directory"),
        (("--profile", "fixed", "--closed-loop"), "--closed-loop: the server of --profile fixed"),
        (("--load", "0"), "--load 0: must be a number above 0"),
        (("--load", "1,half"), "--load half: must be a number above 0"),
        (("--sla", "ttft=2"), "ttft = 2: must be a time such as 2s or 50ms"),
        (("--sla", "tpot=2s"), "no promise tpot: ttft, itl or e2e"),
        (("--order", "lifo"), "--order lifo: must be one of fcfs, priority, shortest"),
        (("--order", "priority"), "--class-priority and --order priority: one needs the other"),
        (
            ("--order", "priority", "--class-priority", "chat=1"),
            "no class chat: no trace names classes",
        ),
        (("--requests", "out.txt"), "--requests out.txt: must end in .csv or .jsonl"),
        (("--tier", "hots=1GiB"), "must begin with host=, disk= or remote= and a size; did you"),
        (("--tier", "host"), "--tier host: needs a size, as --tier 'host=64 GiB'"),
        (("--tier", "disk="), "--tier disk=: needs a size, as --tier 'disk=64 GiB'"),
        (("--prefetch", "3"), "--prefetch: there is no tier below the pool: add --tier host=SIZE"),
        (("--routing", "prefix"), "--routing prefix: one server has no peers: add --replicas"),
        (("--tell-copies",), "--tell-copies: one server has no peers: add --replicas"),
        (("--event-delay", "1s"), "--event-delay 1s: nobody hears what replicas cache"),
        (
            ("--event-loss", "0.5", "--replicas", "2"),
            "--event-loss 0.5: nobody hears what replicas cache: add --routing prefix or",
        ),
        (("--tier", "disk=1GiB"), "--tier: host memory is the first tier, and no other is"),
        (("--tier", "host=lots"), "lots: must be pages, or bytes with a unit"),
        (("--tier", "host=1MiB"), "tier host: 1MiB holds no page of 64.00 MiB"),
        (("--tier", "host=9,read=50GB"), "read = 50GB: must be bytes a second, such as 50GB/s"),
        (("--tier", "host=9,latency=2"), "latency = 2: must be a time such as 20us or 1ms"),
        (("--tier", "host=9,reed=5GB/s"), "reed"),
        (
            ("--tier", "host=9,break_even=soon"),
            "break_even = soon: must be tokens, at most 4294967295, or auto",
        ),
        (("--tier", "host=9,admission=write-bak"), "write-bak"),
        (("--tier", "host=9", "--profile", "fixed"), "--tier: the server of --profile fixed has"),
        (
            (
                "--tier",
                "host=9,link=bus,read=9GB/s,write=9GB/s,latency=1us",
                "--tier",
                "disk=9,link=bus,read=5GB/s,write=9GB/s,latency=1us",
            ),
            "host and disk share the link bus: give both the same read, write, latency, sharing",
        ),
        (("--config", "none.toml"), "none.toml: "),
    ],
)
def test_what_cannot_be_is_refused(
    bench: Command, small: Path, args: Sequence[str], message: str
) -> None:
    done = bench("serve", "--trace", small, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "steps.csv:1: no column num_tokens"),
        (TABLE, "steps.csv: the table has no rows"),
        (TABLE + "1,1,9,0,x\n", "steps.csv:2: step_us = x: must be a number"),
        (TABLE + "5,1,9,0,10\n", "steps.csv:2: num_tokens = 5: n_decode + prefill_chunk is 1"),
        (TABLE + "1,1,9,0,0\n", "steps.csv: row 1: numbers must be 0 or more"),
        (
            TABLE + "1,1,9,0,5\n1,1,9,0,6\n",
            "the same step is measured above; `kvframe calibrate --from` fits a log",
        ),
        (TABLE + "1,1,9,0,5\n2,2,9,0,6\n8,0,0,8,9\n", "prefill_chunk = 8 have one value of n_d"),
    ],
)
def test_what_is_no_table_is_refused(
    bench: Command, small: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "steps.csv").write_text(text)
    done = bench("serve", "--trace", small, "--profile", "steps.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


CLASSES = "".join(
    json.dumps(
        {"timestamp": 400 * i, "input_length": 1100, "output_length": 2, "hash_ids": [0, i % 5, i]}
        | {"type": "chat" if i % 3 else "code"}
    )
    + "\n"
    for i in range(30)
)


def test_replicas_are_told_one_by_one_and_routings_are_compared(
    bench: Command, tmp_path: Path
) -> None:
    (tmp_path / "classes.jsonl").write_text(CLASSES)
    asked = ("serve", "--trace", "classes.jsonl", "--policy", "lru", "--capacity", "8")
    fleet = (*asked, "--replicas", "1,2", "--routing", "round-robin,prefix:queue=0.5")
    done = bench(*fleet, "--event-delay", "5ms", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    shown = [cell for cell in result["cells"] if cell["time_factor"] == 1.0]
    labels = [(cell["replicas"], cell["routing"]) for cell in shown]
    assert labels == [(1, None), (2, "round-robin"), (2, "prefix:queue=0.5")]
    parts = result["by_replica"]
    assert [part["part"] for part in parts] == ["0", "1"] * 2
    assert [part["requests"] for part in parts[:2]] == [15, 15]
    assert sum(part["computed_tokens"] for part in parts[2:]) == (
        shown[2]["prefill_tokens"] + shown[2]["decode_tokens"]
    )
    assert result["by_class"] == []
    text = bench(*fleet).stdout
    assert "2 replicas of 8 blocks of 512 tokens" in text
    assert "What each replica does, TTFT in s" in text
    assert text.splitlines()[-1].startswith("classes.jsonl, load 1, 2 replicas of 8 blocks, lru: ")


def test_a_flood_is_told_by_class(bench: Command, tmp_path: Path) -> None:
    (tmp_path / "classes.jsonl").write_text(CLASSES)
    asked = ("serve", "--trace", "classes.jsonl", "--policy", "lru", "--capacity", "8")
    done = bench(*asked, "--flood", "chat=4", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    parts = {(part["trace"], part["part"]): part["requests"] for part in result["by_class"]}
    more = "classes.jsonl, chat x 4"
    assert parts == {
        ("classes.jsonl", "code"): 10,
        ("classes.jsonl", "chat"): 20,
        (more, "code"): 10,
        (more, "chat"): 80,
    }
    assert "when chat comes 4 times as often, code finds " in result["verdicts"][-1]
    assert "What each class feels" in bench(*asked, "--flood", "chat=4").stdout


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--replicas", "0"), "--replicas 0: must be a number from 1 to 64"),
        (("--replicas", "2", "--routing", "prefx"), "did you mean prefix?"),
        (("--routing", "session:queue=2"), "no option queue: prefix has queue"),
        (("--routing", "prefix:queue=-1"), "queue: must be 0 or more"),
        (("--event-delay", "5"), "--event-delay 5: must be a time such as 2s or 50ms"),
        (("--replicas", "2", "--profile", "fixed"), "--profile fixed has no steps"),
        (("--flood", "chat"), "--flood chat: must be CLASS=N with a whole N from 2 to 1000000"),
        (("--flood", "chat=2"), "has no class chat: it names no classes"),
    ],
)
def test_impossible_fleets_are_refused(
    bench: Command, small: Path, option: tuple[str, ...], message: str
) -> None:
    done = bench("serve", "--trace", small.name, *SERVER, *option)
    assert done.returncode == 2
    assert message in done.stderr
