"""The table of built-in policies names each of them, with its options, in the order of the list."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
from click.testing import CliRunner

from kvframe.cli import main
from kvframe.policies.builtin import BUILTIN

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"


def rows() -> list[list[str]]:
    """Cells of the table's rows."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_lists_what_is_built_in() -> None:
    listed = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).output)
    names = [row["name"] for row in listed if (row["way"], row["kind"]) == ("builtin", "eviction")]
    assert [row[0].strip("`") for row in rows()] == names


def test_the_table_names_every_option() -> None:
    for row, policy in zip(rows(), BUILTIN, strict=True):
        fields = msgspec.structs.fields(policy.options) if policy.options else ()
        assert re.findall(r"`(\w+)`", row[2]) == [field.name for field in fields], policy.name
