"""Which test serves which scenario: read from the markers in the sources, without running any.

``python -m tests.conformance.index [AREA]`` prints it. Rows live in ``rows/AREA.toml``: an id and
what must be so, below the system it comes from. A row of a built area needs a test, or a reason in
the table ``not-applying`` of its file.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
RUST = TESTS.parent / "rust"
PLUGINS = TESTS.parent / "plugins"
ROWS = Path(__file__).parent / "rows"
_RUST_MARK = re.compile(r"//+ scenario: (?P<rows>[\w, -]+)$", re.M)
_REASONS = "not-applying"

BUILT: tuple[str, ...] = ("control", "faults", "pages", "policy", "radix", "router", "wire")
"""Areas that are there: each of their rows has a test. Whoever builds another adds it."""

MOST_NOT_APPLYING = 10
"""Rows, over all areas, that may go without a test."""


class Row(NamedTuple):
    """What must be so, and which part of kvframe has to see to it."""

    id: str
    title: str
    area: str
    system: str
    not_applying: str | None = None


class Mark(NamedTuple):
    """A row that a test says it serves."""

    row: str
    file: Path
    line: int
    test: str


def rows(folder: Path = ROWS) -> dict[str, Row]:
    """Every scenario by its id, area after area.

    Raises:
        ValueError: An id stands in two places, or a reason is for no row of its area.
    """
    found: dict[str, Row] = {}
    for path in sorted(folder.glob("*.toml")):
        tables = tomllib.loads(path.read_text())
        reasons = tables.pop(_REASONS, {})
        for system, titles in tables.items():
            for name, title in titles.items():
                if name in found:
                    raise ValueError(f"{path.name}: {name} stands in {found[name].area} too")
                found[name] = Row(name, title, path.stem, system, reasons.pop(name, None))
        if reasons:
            raise ValueError(f"{path.name}: reasons for rows that it has not: {', '.join(reasons)}")
    return found


def marks(tests: Path = TESTS, rust: Path = RUST, plugins: Path = PLUGINS) -> Iterator[Mark]:
    """Every marker: ``@pytest.mark.scenario("I3")`` in Python, ``// scenario: I3`` in Rust.

    One that a module gives itself by ``pytestmark`` is of each of its tests.
    """
    for folder in (tests, plugins):
        for path in sorted(folder.rglob("test_*.py")):
            yield from _python(path)
    for path in sorted(rust.rglob("*.rs")):
        text = path.read_text()
        for found in _RUST_MARK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            for row in found["rows"].split(","):
                yield Mark(row.strip(), path, line, path.stem)


def _python(path: Path) -> Iterator[Mark]:
    tree = ast.parse(path.read_text())
    of_module = [
        mark
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in ast.walk(node.value)
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        is_test = node in tree.body and node.name.startswith(("test_", "Test"))
        for mark in [*node.decorator_list, *(of_module if is_test else [])]:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.scenario":
                for row in mark.args:
                    yield Mark(ast.literal_eval(row), path, mark.lineno, node.name)


def missing(titles: dict[str, Row], found: list[Mark], built: Collection[str] = BUILT) -> list[Row]:
    """Rows of built areas that have neither a test nor a reason."""
    served = {mark.row for mark in found}
    wanted = (row for row in titles.values() if row.area in built and row.not_applying is None)
    return [row for row in wanted if row.id not in served]


def report(titles: dict[str, Row], found: list[Mark]) -> str:
    """Every row with its tests, an area at a time, a line each."""
    tests: dict[str, list[str]] = {}
    for mark in found:
        tests.setdefault(mark.row, []).append(f"{mark.file.name}::{mark.test}")
    served = len(tests.keys() & titles.keys())
    lines = [f"{served} of {len(titles)} scenarios have a test"]
    for area in dict.fromkeys(row.area for row in titles.values()):
        of_area = [row for row in titles.values() if row.area == area]
        served = sum(row.id in tests for row in of_area)
        state = "built" if area in BUILT else "not built yet"
        lines += ["", f"{area} ({state}): {served} of {len(of_area)}"]
        for row in of_area:
            by = ", ".join(tests.get(row.id, ["-"]))
            if row.not_applying is not None:
                by = f"does not apply: {row.not_applying}"
            lines.append(f"{row.id:7} {row.title}: {by}")
    return "\n".join(lines)


if __name__ == "__main__":
    only = sys.argv[1:]
    print(report({n: r for n, r in rows().items() if not only or r.area in only}, list(marks())))
