"""Ways by size: the first step that a transfer fits."""

from __future__ import annotations

import pytest

from kvframe import UsageError
from kvframe.pages.transfer_paths import Ways


def test_a_transfer_takes_the_first_step_that_it_fits() -> None:
    ways = Ways(((1, "kernel"), (32, "rows")), "staged")
    assert [ways.of(n) for n in (1, 2, 32, 33, 10**6)] == [
        "kernel",
        "rows",
        "rows",
        "staged",
        "staged",
    ]
    assert ways.all() == ("kernel", "rows", "staged")


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="must ascend"):
        Ways(((8, "rows"), (8, "kernel")), "staged")
    with pytest.raises(UsageError, match="did you mean staged"):
        Ways((), "stagd")  # type: ignore[arg-type]
