"""External KV by its end, loads that outlive their sequence, tickets that lapse, who holds what."""

from __future__ import annotations

import pytest

from kvframe import HandleError, UsageError

from .helpers import cached, manager

PROMPT = list(range(13))


@pytest.mark.scenario("VT34")
@pytest.mark.parametrize("local", [0, 4, 8, 12])
def test_what_is_cached_is_not_brought_again(local: int) -> None:
    kv = manager(8)
    cached(kv, PROMPT[:local])
    grant = kv.allocate(PROMPT, external_until=10)
    assert (grant.cached_tokens, grant.external_tokens) == (local, max(8 - local, 0))
    assert (grant.load is None) == (local >= 8)
    with pytest.raises(UsageError, match="one of the two"):
        kv.allocate([9] * 13, num_external_tokens=4, external_until=8)


@pytest.mark.scenario("V12")
def test_a_load_whose_end_is_never_told_lapses_and_not_before() -> None:
    kv = manager(4)
    grant = kv.allocate(PROMPT, num_external_tokens=12)
    assert grant.load is not None
    kv.pins.set_deadline(grant.load, 50)
    kv.release(grant.seq)
    page = next(b for b in range(4) if kv.blocks.owners(b).tickets)
    assert kv.blocks.owners(page).tickets == [grant.load]
    assert kv.inspect.tickets() == [(grant.load, "load", 3, 50)]
    assert kv.expire_until(49)[:2] == ([], [])
    assert kv.counts().referenced == 3
    assert kv.expire_until(50)[:2] == ([grant.load], [])
    assert kv.counts() == (4, 0, 0, 4)
    assert kv.lookup(PROMPT).tokens == 0
    with pytest.raises(HandleError):
        kv.pins.set_deadline(grant.load, 1)
    kv.check_integrity()


@pytest.mark.scenario("V12", "T9")
@pytest.mark.parametrize("good", [0, 2, 3])
def test_what_a_load_brings_for_an_ended_sequence_is_cached(good: int) -> None:
    kv = manager(8)
    cached(kv, PROMPT[:4])
    grant = kv.allocate([*PROMPT, 13, 14, 15, 16], num_external_tokens=12)
    assert grant.load is not None
    kv.release(grant.seq)
    assert kv.stats.counters()["live_sequences"] == 0
    assert kv.loaded(grant.load, good) == []
    assert kv.lookup([*range(17)]).tokens == 4 + 4 * good
    assert kv.counts().referenced == 0
    kv.check_integrity()
