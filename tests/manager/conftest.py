"""Runs what both indexes serve over both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import helpers

BOTH = {
    "test_admission",
    "test_async",
    "test_bad_admission",
    "test_bad_policies",
    "test_copies",
    "test_life",
    "test_loads",
    "test_outputs",
    "test_pins",
    "test_refusals",
    "test_room",
    "test_starts",
    "test_step",
    "test_threads",
    "test_tree_rows",
}
"""Test files that ask for nothing that is one index's own."""


@pytest.fixture(autouse=True)
def index(request: pytest.FixtureRequest) -> Iterator[str]:
    """The index of the managers that `helpers.manager` builds."""
    helpers.INDEX[0] = getattr(request, "param", "hash")
    yield helpers.INDEX[0]
    helpers.INDEX[0] = "hash"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of those files, once an index."""
    if metafunc.module.__name__.rpartition(".")[2] in BOTH:
        metafunc.parametrize("index", ["hash", "radix"], indirect=True)
