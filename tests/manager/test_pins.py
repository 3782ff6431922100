"""Prefixes that are pinned: kept from eviction, released by a receipt, once."""

from __future__ import annotations

import pytest

from kvframe import CapacityError, HandleError, KVCacheManager, Pin

from .helpers import cached, manager, state

PROMPT = list(range(12))


def pinned(kv: KVCacheManager, tokens: list[int]) -> Pin:
    pin = kv.pins.pin(tokens)
    assert pin is not None
    return pin


@pytest.mark.scenario("S9", "S10", "S12")
def test_a_receipt_ends_its_pin_once() -> None:
    kv = manager(8)
    cached(kv, PROMPT)
    first, second = pinned(kv, PROMPT), pinned(kv, PROMPT[:4])
    kv.pins.unpin(first)
    before = state(kv)
    for wrong in (
        first,
        second._replace(block=first.block),
        first._replace(block=second.block),
        Pin(0, 0, 0),
        Pin(1 << 40, 3, 4),
    ):
        with pytest.raises(HandleError, match="opens no lock"):
            kv.pins.unpin(wrong)
        assert state(kv) == before
    kv.pins.unpin(second)
    assert kv.counts().cached == 3
    kv.check_integrity()


def test_a_pin_takes_the_whole_prompt_and_counts_no_hit() -> None:
    kv = manager(8)
    cached(kv, PROMPT)
    before = kv.stats.counters()
    pin = pinned(kv, PROMPT)
    assert pin.tokens == 12, "nothing of it is to be computed, so rule 5 has no say"
    assert kv.stats.counters() == before
    assert kv.pins.pin([7, 7, 7, 7]) is None
    assert kv.pins.pin([]) is None
    kv.pins.unpin(pin)


def test_pins_of_other_namespaces_are_others() -> None:
    kv = manager(8)
    cached(kv, PROMPT[:4], cache_salt="a")
    assert kv.pins.pin(PROMPT[:4]) is None
    pin = kv.pins.pin(PROMPT[:4], cache_salt="a")
    assert pin is not None
    kv.pins.unpin(pin)


def test_room_does_not_count_what_is_pinned() -> None:
    kv = manager(4)
    cached(kv, PROMPT)
    pin = pinned(kv, PROMPT)
    with pytest.raises(CapacityError):
        kv.allocate([50] * 8)
    kv.pins.unpin(pin)
    assert kv.allocate([50] * 8).granted_tokens == 8


def test_a_reset_forgets_what_is_pinned_and_frees_it_later() -> None:
    kv = manager(8)
    cached(kv, PROMPT)
    pin = pinned(kv, PROMPT)
    kv.reset_prefix_cache()
    assert kv.lookup([*PROMPT, 99]).tokens == 0
    assert kv.counts().referenced == 3
    kv.check_integrity()
    kv.pins.unpin(pin)
    assert kv.counts().free == 8
    kv.check_integrity()


def test_two_pins_of_one_prefix_need_both_receipts() -> None:
    kv = manager(8)
    cached(kv, PROMPT)
    pins = [pinned(kv, PROMPT), pinned(kv, PROMPT)]
    kv.pins.unpin(pins[0])
    assert kv.counts().referenced == 3
    kv.pins.unpin(pins[1])
    assert kv.counts().referenced == 0
