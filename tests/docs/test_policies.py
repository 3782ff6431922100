"""The table of built-in policies names each of them, in the order of the list."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvframe.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"


SECTIONS = {"eviction": 0, "admission": 1, "prefix": 2}
"""Places of the kinds on the page, which its second-level headings part."""


def rows(kind: str) -> list[list[str]]:
    """Cells of the rows of a kind's table."""
    sections = re.split(r"^## (?:Admission|Prefix matching|Papers)$", PAGE.read_text(), flags=re.M)
    section = sections[SECTIONS[kind]]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_table_lists_what_is_built_in(kind: str) -> None:
    listed = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).output)
    mine = [row for row in listed if row["distribution"] == "kvframe"]
    names = [row["name"] for row in mine if row["kind"] == kind]
    assert [row[0].strip("`") for row in rows(kind)] == names
