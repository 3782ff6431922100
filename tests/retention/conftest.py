"""Every test over both indexes; registers the `scenario` marker."""

from __future__ import annotations

import pytest

from ..conformance.marker import pytest_configure

__all__ = ["pytest_configure"]


@pytest.fixture(params=["hash", "radix"])
def index(request: pytest.FixtureRequest) -> str:
    """The index of the managers of a test."""
    return str(request.param)
