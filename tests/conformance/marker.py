"""The marker that ties a test to rows of rows.toml; each conftest that needs it imports this."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "scenario(*rows): rows of tests/conformance/rows.toml that the test serves"
    )
