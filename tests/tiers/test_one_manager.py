"""What `Tiers` take of an engine: a manager that has no others, and a clock that tells a time."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import UsageError
from kvframe.tiers import Inline, Tiers

from .helpers import Engine, Shelf, below, host, text


def engine(**more: Any) -> Engine:
    return Engine(
        [host(16), below(64, "shared")], stores=[Shelf(), Shelf(), Shelf()], blocks=24, **more
    )


def again(one: Engine, **more: Any) -> Tiers:
    pools = [part.pool for part in one.tiers.moves.parts]
    return Tiers(one.kv, pools, model="t", worker=lambda _: Inline(), **more)


def test_second_tiers_wait_until_the_first_are_closed() -> None:
    """An erasure, or new weights, would reach those alone that are told of it."""
    one = engine()
    one.run(text(1, 17))
    with pytest.raises(UsageError, match="has tiers already: close them first"):
        again(one)
    one.run(text(2, 17))
    one.tiers.check_integrity()
    one.tiers.close()
    again(one).close()


@pytest.mark.parametrize("now", [-1, 2**63, -(2**70), 1.5, float("nan"), True, None, "1"], ids=str)
def test_a_clock_that_tells_no_time_is_named(now: Any) -> None:
    one = engine()
    one.tiers.close()
    tiers = again(one, clock=lambda: now)
    told = r"clock\(\) = .*: must be milliseconds, an integer between 0 and 9223372036854775807"
    with pytest.raises(UsageError, match=told):
        tiers.poll()
    with pytest.raises(UsageError, match=told):
        tiers.close()
    one.kv.check_integrity()


def test_a_clock_is_called() -> None:
    one = engine()
    one.tiers.close()
    wrong: Any = 5
    with pytest.raises(UsageError, match="clock = 5: must be callable, or None"):
        again(one, clock=wrong)
    tiers = again(one, clock=lambda: 2**63 - 1)
    tiers.poll()
    tiers.close()
