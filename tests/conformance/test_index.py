"""Markers name scenarios that exist. What is covered: ``python -m tests.conformance.index``."""

from __future__ import annotations

from pathlib import Path

from .index import marks, report, rows


def test_markers_name_rows_that_exist() -> None:
    titles = rows()
    unknown = [f"{m.file.name}:{m.line}: {m.row}" for m in marks() if m.row not in titles]
    assert not unknown, "no such row: " + "; ".join(unknown)


def test_the_index_finds_markers_and_reports_them(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import pytest\n\n"
        '@pytest.mark.scenario("I1", "I2")\n'
        '@pytest.mark.scenario("I9")\n'
        "def test_one(): ...\n"
    )
    (tmp_path / "b.rs").write_text("// scenario: I3, I1\nfn b() {}\n")
    found = list(marks(tmp_path, tmp_path))
    assert sorted(m.row for m in found) == ["I1", "I1", "I2", "I3", "I9"]
    told = report({"I1": "one", "I4": "four"}, found)
    assert "I1      one: test_a.py::test_one, b.rs::b" in told
    assert "I4      four: -" in told


def test_some_scenarios_are_served() -> None:
    served = {mark.row for mark in marks()}
    assert {"I1", "I3", "I6", "I13", "T18"} <= served
    print(report(rows(), list(marks())))  # shown by: pytest -s
