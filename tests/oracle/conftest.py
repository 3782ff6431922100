"""How many steps to take."""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--steps", type=int, help="steps of the random walks, all together")


@pytest.fixture(scope="session")
def steps(request: pytest.FixtureRequest) -> int:
    """Steps of the seeded walks, all together: --steps, else KVFRAME_STEPS, else 100,000."""
    asked = request.config.getoption("--steps", None)
    return int(asked or os.environ.get("KVFRAME_STEPS", "100000"))
