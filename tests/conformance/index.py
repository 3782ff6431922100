"""Which test serves which scenario: read from the markers in the sources, without running any."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
RUST = TESTS.parent / "rust"
_RUST_MARK = re.compile(r"//+ scenario: (?P<rows>[\w, -]+)$", re.M)


class Mark(NamedTuple):
    """A row that a test says it serves."""

    row: str
    file: Path
    line: int
    test: str


def rows() -> dict[str, str]:
    """Every scenario's id and what must be so."""
    with (Path(__file__).parent / "rows.toml").open("rb") as file:
        tables = tomllib.load(file)
    return {row: title for table in tables.values() for row, title in table.items()}


def marks(tests: Path = TESTS, rust: Path = RUST) -> Iterator[Mark]:
    """Every marker: ``@pytest.mark.scenario("I3")`` in Python, ``// scenario: I3`` in Rust."""
    for path in sorted(tests.rglob("test_*.py")):
        yield from _python(path)
    for path in sorted(rust.rglob("*.rs")):
        text = path.read_text()
        for found in _RUST_MARK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            for row in found["rows"].split(","):
                yield Mark(row.strip(), path, line, path.stem)


def _python(path: Path) -> Iterator[Mark]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.scenario":
                for row in mark.args:
                    yield Mark(ast.literal_eval(row), path, mark.lineno, node.name)


def report(titles: dict[str, str], found: list[Mark]) -> str:
    """Rows served and not served, a line each."""
    tests: dict[str, list[str]] = {}
    for mark in found:
        tests.setdefault(mark.row, []).append(f"{mark.file.name}::{mark.test}")
    lines = [f"{len(tests)} of {len(titles)} scenarios have a test"]
    for row, title in titles.items():
        lines.append(f"{row:7} {title}: {', '.join(tests.get(row, ['-']))}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(rows(), list(marks())))
