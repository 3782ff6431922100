"""The planted mutants still apply. That tests kill them is `make mutants` (some minutes)."""

from __future__ import annotations

import pytest

from tests.conformance.index import rows
from tests.mutants import kills
from tests.mutants.listing import MUTANTS, NOT_PLANTED, replanted
from tests.mutants.mutant import Mutant
from tests.mutants.run import CORE, ROOT, plant, verdict_of


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_text_occurs_exactly_once(mutant: Mutant) -> None:
    source = (ROOT / mutant.source).read_text()
    assert plant(mutant, source) != source


def test_the_tests_that_killed_mutants_are_there() -> None:
    """Else a run begins with a test that is not there, and passes."""
    names = {mutant.name for mutant in MUTANTS if not mutant.tests}
    assert kills.load().keys() <= names
    sources: dict[str, str] = {}
    for name, (file, test) in kills.load().items():
        if file not in sources:
            places = [*CORE.glob(f"tests/{file}.rs"), *CORE.glob(f"tests/{file}/*.rs")]
            places += CORE.glob("src/**/*.rs") if file == "lib" else ()
            sources[file] = "".join(path.read_text() for path in places)
        assert f"fn {test.rpartition(':')[2]}(" in sources[file], f"{name}: {file} {test}"


def test_there_are_twenty_different_ones() -> None:
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 20


def test_every_defect_of_a_superseded_manager_is_planted_or_says_why_not() -> None:
    titles, planted = rows(), replanted()
    defects = {name for name in titles if "-B" in name}
    assert planted.keys() | NOT_PLANTED.keys() <= titles.keys()
    assert not planted.keys() & NOT_PLANTED.keys()
    missing = defects - planted.keys() - NOT_PLANTED.keys()
    assert not missing, ", ".join(sorted(missing))


def test_a_text_that_moved_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"occurs 0 times in pool\.rs"):
        plant(Mutant("gone", "pool.rs", "no such text", "", ""), "source")


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        ("test a::b ... ok\ntest c::d ... FAILED\n", ("killed", "c::d")),
        ("test a ... FAILED\ntest b ... FAILED\n", ("killed", "a and 1 more")),
        ("\nthread 'a::b' (7) has overflowed its stack\nfatal\n", ("killed", "a::b")),
        ("FAILED tests/a.py::b - assert 1\n", ("killed", "tests/a.py::b")),
        ("test a ... ok\n", ("error", "no test failed, and yet they did not end well")),
    ],
)
def test_a_verdict_names_the_test_that_gave_it(output: str, verdict: tuple[str, str]) -> None:
    assert verdict_of(output) == verdict
