"""The command that shows what policies hit, where SGLang is not installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_sglang_a_replay_says_so_in_a_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvframe_sglang.replay"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("torch is not installed beside it\n")
