"""What clients say of their requests in a field that an engine passes on as it came."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe.flat import UNKNOWN, Access, TierPolicy
from kvframe.integrations.peers import use_of


def test_what_is_said_is_taken() -> None:
    assert use_of(None) == use_of({}) == use_of({"later": 1}) == UNKNOWN
    most = Access(session=2**64 - 1, turn=2**32 - 1, priority=-(2**31), tokens=2**32 - 1)
    told = {"session": most.session, "turn": most.turn, "priority": -(2**31), "tokens": most.tokens}
    assert use_of(told) == most
    tier: TierPolicy[str] = TierPolicy.named("lru", 4)
    tier.insert("a", use=most)


@pytest.mark.scenario("V6", "I13")
@pytest.mark.parametrize(
    "told",
    [
        5,
        "high",
        [1],
        {"session": ["x"]},
        {"session": "\ud800"},
        {"session": 1.5},
        {"session": None},
        {"session": True},
        {"session": -1},
        {"session": 2**64},
        {"turn": 2**32},
        {"request_class": -1},
        {"priority": 2**31},
        {"priority": -(2**31) - 1},
        {"tokens": 10**400},
    ],
)
def test_what_is_wrong_is_left_out_and_the_engine_goes_on(told: Any) -> None:
    with pytest.warns(UserWarning, match="what a request says of itself is left out: ") as caught:
        assert use_of(told) == UNKNOWN
    assert len(str(caught[0].message)) < 120
