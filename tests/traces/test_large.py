"""Memory goes by distinct blocks, not by accesses: on a file of a size that still can be made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from perf.large import measure, write

MEGABYTES = 300
"""32 million accesses to 4 million blocks: a list of them all has 130 MB, one of their ids 1 GB as
Python has it.
"""
PYTHON = 110


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "trace.jsonl"
    write(path, MEGABYTES * 10**6, wide=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["trace", "info"], 20 * 4 + 40),
        (["trace", "convert", "-o", "-"], 12 * 4 + 40),
        (["trace", "sample", "--share", "0.1", "-o", "-"], 12 * 4 + 40),
    ],
)
def test_megabytes_at_most(trace: Path, command: list[str], extra: int) -> None:
    """``extra`` counts the bytes a block that the documentation states, and buffers."""
    run = [sys.executable, "-m", "kvframe", *command[:2], str(trace), *command[2:]]
    used = measure(run, trace.stat().st_size)
    assert int(str(used["peak_megabytes"])) < PYTHON + extra
