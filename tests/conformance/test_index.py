"""Markers name scenarios that exist, and each scenario of a built area has a test.

What is covered: ``python -m tests.conformance.index``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from .index import BUILT, MOST_NOT_APPLYING, PLUGINS, TESTS, Mark, Row, marks, missing, report, rows
from .optional import optional


@cache
def told() -> list[Mark]:
    """All there are: reading every test takes seconds."""
    return list(marks())


def test_markers_name_rows_that_exist() -> None:
    titles = rows()
    unknown = [f"{m.file.name}:{m.line}: {m.row}" for m in told() if m.row not in titles]
    assert not unknown, "no such row: " + "; ".join(unknown)


def test_every_row_of_a_built_area_has_a_test() -> None:
    titles = rows()
    assert set(BUILT) <= {row.area for row in titles.values()}
    without = [f"{row.id} ({row.title})" for row in missing(titles, told())]
    assert not without, f"{len(without)} rows without a test: " + "; ".join(without)


@pytest.mark.scenario("F29")
def test_every_row_has_a_test_that_needs_no_optional_peer() -> None:
    """A row whose only test is skipped without another engine, a card or a server is not proved."""
    folders = (TESTS, PLUGINS)
    files = sorted(
        path for at in folders for path in at.rglob("*.py") if "packages" not in path.parts
    )
    skipped = optional(files, TESTS.parent)
    served: dict[str, bool] = {}
    for mark in told():
        always = mark.file.suffix == ".rs" or (mark.file, mark.test) not in skipped
        served[mark.row] = served.get(mark.row, False) or always
    only = sorted(row for row, always in served.items() if not always)
    assert not only, f"each test of these may be skipped: {', '.join(only)}"


@pytest.mark.scenario("F29")
def test_what_may_be_skipped_is_found_through_helpers_and_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef peer():\n    pytest.skip('none')\n"
    )
    (tmp_path / "peer.py").write_text(
        "import pytest\n\nclass Peer:\n"
        "    def __init__(self):\n        pytest.importorskip('engine')\n"
    )
    (tmp_path / "test_one.py").write_text(
        "import pytest\nfrom .peer import Peer\n\n"
        "def run():\n    return Peer()\n\n"
        "def test_helper():\n    run()\n\n"
        "def test_fixture(peer):\n    pass\n\n"
        "@pytest.mark.skipif(True, reason='')\ndef test_marked():\n    pass\n\n"
        "@pytest.mark.skipif(shutil.which('valgrind') is None, reason='')\n"
        "def test_tool():\n    pass\n\n"
        "def test_always():\n    pass\n"
    )
    found = optional(sorted(tmp_path.glob("*.py")), tmp_path)
    assert {name for _, name in found if name.startswith("test")} == {
        "test_helper",
        "test_fixture",
        "test_marked",
    }


def test_few_rows_do_not_apply_and_each_says_why() -> None:
    reasons = {row.id: row.not_applying for row in rows().values() if row.not_applying is not None}
    for name, reason in reasons.items():
        print(f"{name}: {reason}")  # shown by: pytest -s
    assert all(reason.strip() for reason in reasons.values())
    assert len(reasons) <= MOST_NOT_APPLYING, ", ".join(reasons)


def test_the_index_finds_markers_and_reports_them(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import pytest\n\n"
        '@pytest.mark.scenario("I1", "I2")\n'
        '@pytest.mark.scenario("I9")\n'
        "def test_one(): ...\n"
    )
    (tmp_path / "b.rs").write_text("// scenario: I3, I1\nfn b() {}\n")
    plugin = tmp_path / "plugins" / "one" / "tests"
    plugin.mkdir(parents=True)
    (plugin / "test_c.py").write_text(
        "import pytest\n\n"
        'pytestmark = [pytest.mark.slow, pytest.mark.scenario("I7")]\n\n'
        "def helper(): ...\n\ndef test_three(): ...\n\ndef test_four(): ...\n"
    )
    found = list(marks(tmp_path / "none", tmp_path, tmp_path / "plugins"))
    assert [(m.row, m.test) for m in found[:2]] == [("I7", "test_three"), ("I7", "test_four")]
    plugin.joinpath("test_c.py").unlink()
    found = list(marks(tmp_path, tmp_path, tmp_path / "plugins"))
    assert sorted(m.row for m in found) == ["I1", "I1", "I2", "I3", "I9"]
    titles = {
        "I1": Row("I1", "one", "control", "a"),
        "I4": Row("I4", "four", "control", "a"),
        "I5": Row("I5", "five", "control", "a", "nobody has five"),
        "I6": Row("I6", "six", "elsewhere", "a"),
    }
    said = report(titles, found)
    assert said.startswith("1 of 4 scenarios have a test\n")
    assert "control (built): 1 of 3\n" in said
    assert "elsewhere (not built yet): 0 of 1\n" in said
    assert "I1      one: test_a.py::test_one, b.rs::b" in said
    assert "I4      four: -" in said
    assert "I5      five: does not apply: nobody has five" in said
    assert [row.id for row in missing(titles, found, ("control",))] == ["I4"]
    assert [row.id for row in missing(titles, found, ("elsewhere",))] == ["I6"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[a]\nI1 = "one"\n[b]\nI1 = "again"\n', "I1 stands in control too"),
        ('[a]\nI1 = "one"\n[not-applying]\nI2 = "gone"\n', "reasons for rows that it has not: I2"),
    ],
)
def test_a_row_stands_once_and_a_reason_is_for_a_row(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "control.toml").write_text(text)
    with pytest.raises(ValueError, match=why):
        rows(tmp_path)
