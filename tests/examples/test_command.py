"""`python -m examples.serving`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from examples.serving.__main__ import main


def test_it_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--policy", "lru", "--policy", "slru", "--capacity", "28", "--requests", "9"]
    assert main(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "9 requests in chats of 3"
    assert [line.split()[0] for line in lines[4:7]] == ["(no", "lru", "slru"]
    assert all(line.endswith(" yes") for line in lines[4:7])
    assert main(["--no-reuse", "--capacity", "28", "--requests", "3"]) == 0
    assert "lru" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--policy", "slruu"], "slru"),
        (["--capacity", "4"], "blocks needed, but the cache has 4"),
        (["--capacity", "0"], "cache.capacity = 0: must be between 1"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--requests", "3", *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "examples.serving", "--requests", "3", "--capacity", "28"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "NO" not in done.stdout
    assert done.stderr == ""
