"""Admission policies and prefix matchers beside eviction policies, in the bench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .conftest import Command

Cells = Callable[..., list[dict[str, Any]]]


def test_each_policy_under_each_admission(cells: Cells, small: Path) -> None:
    asked = ("--trace", small, "--policy", "lru,fifo", "--capacity", 8)
    found = cells(*asked, "--admission", "always,second-use,size:max_tokens=512")
    names = [(cell["policy"], cell["admission"]) for cell in found]
    assert names == [
        (f"{policy}{suffix}", admission)
        for policy in ("lru", "fifo")
        for suffix, admission in (
            ("", "always"),
            ("+second-use", "second-use"),
            ("+size:max_tokens=512", "size:max_tokens=512"),
        )
    ]
    kept, second, first_block = found[:3]
    assert (kept["admission_dropped"], kept["hit_tokens"]) == (0, 1024 + 1024)
    # Blocks 1 and 2 are kept on their second use, by the second request, and found by the last.
    assert (second["admission_dropped"], second["hit_tokens"]) == (3, 1024)
    # Behind 512 tokens, and what is shorter than 1024.
    assert (first_block["admission_dropped"], first_block["hit_tokens"]) == (4, 1024)


def test_prefix_matchers(cells: Cells, small: Path) -> None:
    asked = ("--trace", small, "--policy", "lru", "--capacity", 8)
    found = cells(*asked, "--prefix", "hash,min-hit:min_tokens=1025")
    assert [(cell["policy"], cell["prefix"]) for cell in found] == [
        ("lru", "hash"),
        ("lru/min-hit:min_tokens=1025", "min-hit:min_tokens=1025"),
    ]
    assert [cell["hit_tokens"] for cell in found] == [2048, 0]


def test_kept_cells_are_of_their_admission(cells: Cells, small: Path, tmp_path: Path) -> None:
    asked = ("--trace", small, "--policy", "lru", "--capacity", 8, "--out", tmp_path / "out")
    first = cells(*asked, "--admission", "second-use")
    assert cells(*asked)[0]["hit_tokens"] != first[0]["hit_tokens"]
    assert cells(*asked, "--admission", "second-use") == first


def test_what_is_wrong_is_told(bench: Command, small: Path) -> None:
    for option, value, told in (
        ("--admission", "secnd-use", "did you mean second-use"),
        ("--admission", "second-use:uses=0", "uses = 0: must be between 1"),
        ("--admission", "always:x=1", "always takes no options"),
        ("--prefix", "min-hits", "did you mean min-hit"),
        ("--prefix", "radix", "a trace has keys and no tokens"),
    ):
        done = bench("run", "--trace", small, option, value)
        assert done.returncode == 2
        assert told in done.stderr
        assert len([line for line in done.stderr.splitlines() if "warning" not in line]) == 1
