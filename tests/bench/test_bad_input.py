"""Bad usage and bad data: exit 2, nothing on stdout, one or two lines that name the place."""

import gzip
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvframe.cli import main

from .conftest import KVFRAME, SMALL, Command, rows


def refused(bench: Command, *args: object, stdin: bytes = b"") -> str:
    """Run, check the form of the refusal, and answer what stderr says."""
    done = bench("run", *args, stdin=stdin)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert 1 <= len(done.stderr.splitlines()) <= 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--capacity", "0"), ["--capacity 0", "4294967295"]),
        (("--capacity", "-3"), ["--capacity -3"]),
        (("--capacity", "4294967296"), ["--capacity 4294967296", "4294967295"]),
        (("--capacity", "8k"), ["--capacity 8k", "40 GiB"]),
        (("--capacity", "1 GiB"), ["--capacity 1 GiB", "--model-shape"]),
        (("--model-shape", "laers=3"), ["--model-shape", "laers", "layers"]),
        (("--model-shape", "layers=3"), ["--model-shape", "kv_heads"]),
        (("--model-shape", "layers=3,layers=4"), ["--model-shape", "layers is given twice"]),
        (("--policy", "lrv"), ["lrv", "did you mean lru?", "opt-forced", "kvframe "]),
        (("--policy", "lru,"), ["--policy", "empty"]),
        (("--policy", "lru:x=1"), ["lru:x=1", "no options"]),
        (("--policy", "slru:protected_use=1"), ["did you mean slru.protected_uses?"]),
        (("--policy", "slru:protected_uses=0"), ["protected_uses", "1"]),
        (("--policy", "slru:protected_uses=1:protected_uses=2"), ["protected_uses is given twice"]),
        (("--policy", f"slru:protected_uses={'9' * 5000}"), ["protected_uses", "whole number"]),
        (("--mode", "clocked"), ["--mode clocked", "trace, engine, timed"]),
        (("--format", "yaml"), ["--format yaml", "table, json, csv, md"]),
        (("--block-size", "0"), ["--block-size", "65536"]),
        (("--min-hit-rate", "nan"), ["--min-hit-rate"]),
        (("--trace", "converstion"), ["converstion", "did you mean conversation?"]),
        (("--trace", "nowhere.jsonl"), ["nowhere.jsonl", "no such file"]),
        (("--bogus",), ["--bogus"]),
        (("--load", "2"), ["--load: only timed mode", "--mode timed"]),
        (("--arrival-seed", "1"), ["--arrival-seed: only timed mode", "--mode timed"]),
        (("--details", "--format", "csv"), ["--details: of tables alone", "--format table or md"]),
        (("--policy", "lru", "lfu"), ["lfu: no such sweep", "commas: --policy lru,lfu"]),
        (("--block-size", "64k"), ["'64k' must be a whole number from 1 to 65536"]),
    ],
)
def test_usage(bench: Command, args: tuple[str, ...], words: list[str]) -> None:
    said = refused(bench, *args)
    for word in words:
        assert word in said


def test_bytes_smaller_than_a_block(bench: Command) -> None:
    shape = "layers=32,kv_heads=8,head_dim=128"
    said = refused(bench, "--capacity", "1 MiB", "--model-shape", shape)
    assert "67108864" in said


GOOD = SMALL.splitlines(keepends=True)


def _line(**change: object) -> bytes:
    row = {"timestamp": 9000, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}
    return (json.dumps(row | change) + "\n").encode()


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "bad.jsonl"),
        (b"\n\n", "bad.jsonl"),
        (SMALL[:-20], "bad.jsonl:4"),
        (GOOD[0] + b'{"timestamp": 1, "\xff\xfe": 2}\n', "bad.jsonl:2"),
        (gzip.compress(SMALL)[:-12], "bad.jsonl"),
        (gzip.compress(SMALL)[:20] + b"\0" * 9, "bad.jsonl"),
        (SMALL + _line(hash_ids=[1]), "bad.jsonl:5"),
        (SMALL + _line(hash_ids=[1, 2, 3, 4]), "bad.jsonl:5"),
        (SMALL + _line(input_length=-1024), "bad.jsonl:5"),
        (SMALL + _line(output_length=-1), "bad.jsonl:5"),
        (SMALL + _line(timestamp=0), "bad.jsonl:5"),
        (SMALL + b'{"timestamp": 9000}\n', "bad.jsonl:5"),
        (SMALL + b"[1, 2]\n", "bad.jsonl:5"),
    ],
    ids=[
        "empty", "blank", "truncated", "not-utf8", "gzip-truncated", "gzip-damaged", "few-ids",
        "many-ids", "negative-input", "negative-output", "unsorted", "missing-keys", "no-object",
    ],
)  # fmt: skip
def test_traces(bench: Command, tmp_path: Path, data: bytes, place: str) -> None:
    (tmp_path / "bad.jsonl").write_bytes(data)
    said = refused(bench, "--trace", "bad.jsonl", "--policy", "lru", "--out", "results")
    assert place in said
    # Refused before anything was begun.
    assert not (tmp_path / "results").exists()


def test_bad_stdin_is_named(bench: Command) -> None:
    assert "<stdin>:2" in refused(bench, "--trace", "-", stdin=rows([(512, [1])]) + b"{\n")


@pytest.mark.parametrize("command", ["run --trace -", "plot - -o picture.png"])
def test_stdin_that_is_closed_is_named(tmp_path: Path, command: str) -> None:
    done = closed("<&-", command, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: <stdin>: closed\n" in done.stderr


def test_a_closed_stderr_is_no_error(tmp_path: Path, small: Path) -> None:
    asked = f"run --trace {small} --policy lru --capacity 2 --format json"
    done = closed("2>&-", asked, tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["cells"]


def closed(stream: str, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs ``kvframe bench ...`` with one of its streams closed by the shell."""
    line = f"{shlex.quote(str(KVFRAME))} bench {command} {stream}"
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False
    )


def test_out_that_is_a_file(bench: Command, small: Path) -> None:
    assert "small.jsonl" in refused(bench, "--out", small)


def test_a_threshold_that_fails_is_exit_one(bench: Command, small: Path) -> None:
    asked = ("run", "--trace", small, "--policy", "lru", "--capacity", "9", "--format", "json")
    assert bench(*asked, "--min-hit-rate", "0.1").returncode == 0
    done = bench(*asked, "--min-hit-rate", "0.99")
    assert done.returncode == 1
    assert json.loads(done.stdout)["cells"]
    assert "--min-hit-rate 0.99" in done.stderr


UNSEEN = pytest.mark.parametrize(
    ("name", "encoding"), [("\N{SNOWMAN}", "latin-1"), ("\xe9", "ascii")]
)
ASKED = ["run", "--policy", "lru", "--capacity", "2", "--quiet", "--trace"]


@UNSEEN
def test_a_name_that_the_terminal_cannot_show_is_no_error(
    process: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    (tmp_path / f"{name}.jsonl").write_bytes(SMALL)
    done = process(*ASKED, f"{name}.jsonl")
    assert done.returncode == 0, done.stderr
    assert ".jsonl" in done.stdout


@UNSEEN
@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_nor_is_it_one_in_another_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoding: str, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.jsonl").write_bytes(SMALL)
    asked = ["bench", *ASKED, f"{name}.jsonl", "--format", form]
    done = CliRunner(charset=encoding).invoke(main, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert ".jsonl" in done.stdout


def test_a_file_name_that_is_no_utf8_is_recorded(process: Command, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.jsonl")
    (tmp_path / name).write_bytes(SMALL)
    asked = ("--trace", name, "--policy", "lru", "--capacity", "2", "--quiet", "--out", "results")
    done = process("run", *asked)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "results" / "run.json").read_text())
    assert "\N{REPLACEMENT CHARACTER}.jsonl" in record["command"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("bench tune slru --option protected_uses=2..4", [
            "--option protected_uses=2..4: slru.protected_uses = ", "values go with commas"]),
        ("bench tune slru --option protected=2", [
            "--option protected=2: ", "did you mean slru.protected_uses?"]),
        ("bench report ok.jsonl", ["ok.jsonl: must be a directory of"]),
        ("bench check none.py:X", ["none.py: no such file"]),
        ("bench run --metric none.py:x --policy lru", ["none.py: no such file"]),
        ("trace info conversation --bytes-per-token 128kB", [
            "'128kB' must be a whole number from 1 to 1099511627776"]),
    ],
)  # fmt: skip
def test_other_commands(
    own_modules: Path, monkeypatch: pytest.MonkeyPatch, command: str, words: list[str]
) -> None:
    monkeypatch.chdir(own_modules)
    Path("ok.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    done = CliRunner().invoke(main, shlex.split(command), catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (2, "")
    assert [word for word in words if word not in done.stderr] == []
