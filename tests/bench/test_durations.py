"""Times with their unit, as options of ``kvframe bench serve`` have them."""

from __future__ import annotations

import pytest

from kvframe.bench.server.durations import parse_time
from kvframe.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("50ms", 0.05), ("20us", 0.00002), (" 1.5 ms ", 0.0015)]
)
def test_a_time_is_seconds(text: str, seconds: float) -> None:
    assert parse_time(text, "--x") == seconds


@pytest.mark.parametrize("text", ["", "2", "s", "-1s", "2 m", "1e3s", "2s 3ms"])
def test_what_is_no_time_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--x = y: must be a time such as 1ms$"):
        parse_time(text, "--x = y", such_as="1ms")
