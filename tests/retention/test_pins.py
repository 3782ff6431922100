"""Pins with an owner, a lease and a cap."""

from __future__ import annotations

import pytest

from kvframe import CapacityError, PinInfo

from .helpers import SIZE, manager, prompt, serve, squeeze, there


@pytest.mark.scenario("V4")
def test_pins_hold_no_more_than_the_cap_and_say_so(index: str) -> None:
    kv = manager(index, 10, pin_cap=0.2)
    serve(kv, 1, 2, 3)
    serve(kv, 5)
    pin = kv.pins.pin(prompt(1, 2, 3), owner="system prompt")
    assert pin is not None
    assert (pin.tokens, pin.found, pin.clipped) == (2 * SIZE, 3 * SIZE, True)
    with pytest.raises(
        CapacityError, match="1 blocks more would be pinned: 2 are, and pins may hold 2"
    ):
        kv.pins.pin(prompt(5))
    again = kv.pins.pin(prompt(1, 2))
    assert again is not None
    assert not again.clipped, "held already: it costs nothing"
    squeeze(kv, 2)
    assert (there(kv, 1, 2, 3), there(kv, 5)) == (2, 0), "never evicted"
    assert kv.pins.unpin_all() == 2
    squeeze(kv, 2)
    assert there(kv, 1) == 0, "evictable again"


@pytest.mark.scenario("V4", "T14")
def test_who_holds_it_can_be_asked(index: str) -> None:
    kv = manager(index)
    serve(kv, 1, 2)
    kv.expire_until(10)
    first = kv.pins.pin(prompt(1, 2), owner="agent 7", lease=5)
    second = kv.pins.pin(prompt(1))
    assert first is not None
    assert second is not None
    assert kv.pins.held("agent 7") == [PinInfo(first, "agent 7", 15, 2)]
    assert [held.pin for held in kv.pins.held()] == [first, second]
    block = int(kv.lookup([*prompt(1), 9]).blocks[0][0])
    assert kv.blocks.owners(block).pins == [(first.receipt, "agent 7"), (second.receipt, "")]
    assert kv.pins.unpin_all("agent 8") == 0
    kv.check_integrity()
