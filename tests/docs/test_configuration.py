"""The page of the configuration has every key, and what each built-in policy's options are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from kvframe.config import Config, schema
from kvframe.config.describe import members
from kvframe.policies.builtin import BUILTIN
from kvframe.policies.builtin_admission import BUILTIN_ADMISSION
from kvframe.policies.builtin_prefix import BUILTIN_PREFIX
from kvframe.tiers import DiskOptions

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text()
SECTIONS = dict(re.findall(r"^## `\[+(\w+)\]+`$(.*?)(?=^## )", PAGE, flags=re.M | re.S))
"""What stands below the heading of each section of a configuration."""

POLICIES = {"eviction": BUILTIN, "admission": BUILTIN_ADMISSION, "prefix": BUILTIN_PREFIX}


def tables(section: str) -> list[list[list[str]]]:
    """The tables of a section as rows of cells."""
    found = re.findall(r"(?:^\| `.*\|\n)+", SECTIONS[section], flags=re.M)
    return [[re.split(r" *\| *", line[1:].strip()) for line in t.splitlines()] for t in found]


def keys(table: list[list[str]]) -> list[str]:
    return [name for row in table for name in re.findall(r"`([\w.-]+)`", row[0])]


def names(kind: Any) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind)]


POWERS = {2**24: "2²⁴", 2**26: "2²⁶", 2**32 - 1: "2³² - 1"}


def number(cell: str) -> float:
    return next((value for value, text in POWERS.items() if text == cell), None) or float(cell)


def limits(field: Any) -> str:
    """What a value of an option may be, as the page says it."""
    (kind,) = members(field.type)
    assert isinstance(kind, inspect.IntType | inspect.FloatType)
    if kind.gt is not None:
        return f"above {kind.gt}"
    if kind.le is None:
        return f"from {kind.ge}"
    return f"{kind.ge} to {POWERS.get(int(kind.le), kind.le)}"


def test_every_section_has_a_heading() -> None:
    assert set(SECTIONS) == set(names(Config))


@pytest.mark.parametrize("field", msgspec.structs.fields(Config), ids=lambda field: field.name)
def test_a_section_lists_its_keys(field: Any) -> None:
    kind = re.findall(r"schema\.(\w+)", str(field.type))[0]
    assert sorted(keys(tables(field.name)[0])) == sorted(names(getattr(schema, kind)))


def test_the_options_of_the_disk_are_listed() -> None:
    assert sorted(keys(tables("tiers")[1])) == sorted(names(DiskOptions))


@pytest.mark.parametrize("section", POLICIES)
def test_a_section_lists_the_options_of_built_in_policies(section: str) -> None:
    row = r"^\| ([\w-]+): `(\w+)` \| (.*?) \| (.*?) \|"
    rows = re.findall(row, SECTIONS[section], flags=re.M)
    shown = {(policy, name): (number(default), limit) for policy, name, default, limit in rows}
    assert shown == {
        (policy.name, field.name): (field.default, limits(field))
        for policy in POLICIES[section]
        if policy.options is not None
        for field in msgspec.structs.fields(policy.options)
    }
