"""The command, in this process or one of its own, and small traces to feed it."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvframe.cli import main

KVFRAME = Path(sys.executable).with_name("kvframe")
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``kvframe bench ...`` in this process and an empty folder; ``stdin`` may hold bytes."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        asked = ["bench", *map(str, args)]
        done = CliRunner().invoke(
            main, asked, input=stdin, prog_name="kvframe", catch_exceptions=False
        )
        return subprocess.CompletedProcess(asked, done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def process(tmp_path: Path) -> Command:
    """The same by the real command, in a process of its own."""

    def call(*args: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [KVFRAME, "bench", *map(str, args)],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return call


@pytest.fixture
def cells(bench: Command) -> Callable[..., list[dict[str, Any]]]:
    """Runs ``kvframe bench run ... --format json`` and answers its cells."""

    def call(*args: object, stdin: bytes = b"") -> list[dict[str, Any]]:
        done = bench("run", *args, "--format", "json", stdin=stdin)
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["cells"]
        return found

    return call


def rows(prompts: Sequence[tuple[int, Sequence[int]]], **more: object) -> bytes:
    """A Mooncake trace: (input tokens, hash ids) of each request, one second apart."""
    lines = [
        json.dumps(
            {"timestamp": 1000 * i, "input_length": n, "output_length": 1, "hash_ids": list(ids)}
            | more
        )
        for i, (n, ids) in enumerate(prompts)
    ]
    return ("\n".join(lines) + "\n").encode()


SMALL = rows([(1100, [1, 2, 3]), (1030, [1, 2, 4]), (512, [5]), (1100, [1, 2, 3])])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Four requests of up to three blocks of 512 tokens."""
    path = tmp_path / "small.jsonl"
    path.write_bytes(SMALL)
    return path


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """Three sessions in turn, whose prompts grow by four blocks: they do not fit together."""
    lines = []
    for turn in range(6):
        for session in range(3):
            length = 2048 * (turn + 1) + 8
            ids = [1000 * session + at for at in range(4 * (turn + 1) + 1)]
            row = {"timestamp": 60_000 * turn + 20_000 * session, "input_length": length}
            row |= {"output_length": 2, "session_id": f"s{session}", "hash_ids": ids}  # type: ignore[dict-item]
            lines.append(json.dumps(row))
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path
