"""How many steps to take."""

from __future__ import annotations

import pytest

from ..amounts import amount


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--steps", type=int, help="steps of the random walks, all together")


@pytest.fixture(scope="session")
def steps(request: pytest.FixtureRequest) -> int:
    """Steps of the seeded walks, all together: --steps, else KVFRAME_STEPS."""
    asked = request.config.getoption("--steps", None)
    return int(asked or amount(20_000, 100_000, "KVFRAME_STEPS"))
