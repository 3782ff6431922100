"""The commands of this package, where SGLang is not installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

ABSENT = importlib.util.find_spec("sglang") is None
COMMANDS = ("replay", "cost", "streams", "compatibility")


@pytest.mark.skipif(not ABSENT, reason="SGLang is installed")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_sglang_a_command_says_so_in_a_line(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"kvframe_sglang.{command}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: not installed beside {sys.executable}: sglang")
    assert line.endswith("(pip install 'sglang==0.5.23')")
