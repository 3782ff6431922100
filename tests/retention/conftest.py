"""Every test over both indexes."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["hash", "radix"])
def index(request: pytest.FixtureRequest) -> str:
    """The index of the managers of a test."""
    return str(request.param)
