"""Every file and folder that the map and the guide for contributors name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "explanation" / "architecture.md"
PATH = re.compile(r"`((?:python|rust|tests|docs|plugins|perf|examples|\.ci)/[\w./-]*)`")


@pytest.mark.parametrize("page", [MAP, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    named = {path for path in PATH.findall(page.read_text()) if "NAME" not in path}
    assert len(named) > 5
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_the_picture_shows_rooms_that_exist() -> None:
    picture = re.findall(r"```text\n(.*?)```", MAP.read_text(), re.S)[0]
    python, rust = picture.partition("python/kvframe")[2].split(" RUST  rust/")
    homes = {python: ["python/kvframe"], rust: ["rust", "rust/core/src", "rust/bindings/src"]}
    for text, places in homes.items():
        rooms = re.findall(r"\b\w+(?:\.py\b|/)", text)
        assert len(rooms) > 5
        there = [any((ROOT / place / room).exists() for place in places) for room in rooms]
        assert [room for room, is_there in zip(rooms, there, strict=True) if not is_there] == []


def test_a_request_reaches_the_block_table_in_six_files() -> None:
    section = MAP.read_text().partition("## A request's life")[2].partition("\nLater verbs")[0]
    steps = re.findall(r"^\| (\d) \| `([^`]+)` \|", section, re.M)
    assert [number for number, _ in steps] == [*"123456"]
    texts = [(ROOT / path).read_text() for _, path in steps]
    heads = [
        "def allocate(",
        "fn allocate(",
        "pub fn allocate<",
        "fn find_prefix(",
        "fn obtain_row(",
        "fn obtain(",
    ]
    assert [head for head, text in zip(heads, texts, strict=True) if head not in text] == []
