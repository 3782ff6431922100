"""Which waiting request comes in first, by what is cached of it."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import KVCacheManager, Request, UsageError
from kvframe.pressure import PATIENCE

from .helpers import manager

LONG, SHORT = list(range(40)), list(range(100, 112))
WAITING = [[7] * 20, [*LONG, *[8] * 30], [*SHORT, 9], [5] * 8]


@pytest.fixture
def kv() -> KVCacheManager:
    """Both prompts are cached: ten blocks of four tokens, and three."""
    kv = manager(64)
    for prompt in (LONG, SHORT):
        given = kv.allocate(prompt)
        kv.commit(given.seq, len(prompt))
        kv.release(given.seq)
    return kv


@pytest.mark.parametrize(
    ("rule", "places"), [("longest-prefix", [1, 2, 0, 3]), ("fewest-uncached", [2, 3, 0, 1])]
)
def test_waiting_requests_are_ranked_by_what_is_cached(
    kv: KVCacheManager, rule: Any, places: list[int]
) -> None:
    requests = [Request(tokens) for tokens in WAITING]
    order = kv.pressure.waiting_order(requests, rule)
    assert [one.place for one in order] == places
    for one in order:
        given = kv.allocate(requests[one.place])
        assert one[1:] == (given.cached_tokens, len(WAITING[one.place]) - given.cached_tokens)
        kv.abort(given.seq)


def test_equals_stay_in_order_and_the_first_is_not_passed_over_for_ever(kv: KVCacheManager) -> None:
    same = [Request([n] * 12) for n in range(200, 204)]
    assert [one.place for one in kv.pressure.waiting_order(same)] == [0, 1, 2, 3]
    requests = [Request(tokens) for tokens in WAITING]
    places = [
        [one.place for one in kv.pressure.waiting_order(requests, passed=passed)]
        for passed in (PATIENCE - 1, PATIENCE)
    ]
    assert places == [[2, 3, 0, 1], [0, 2, 3, 1]]
    assert kv.pressure.waiting_order([]) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rule": "fcfs"}, "rule = 'fcfs': must be longest-prefix or fewest-uncached"),
        ({"passed": -1}, "passed = -1: must be an integer of at least 0"),
        ({"requests": [[1, 2]]}, r"requests\[0\] = \[1, 2\]: must be a Request"),
    ],
)
def test_what_is_no_order_is_refused(kv: KVCacheManager, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        kv.pressure.waiting_order(**{"requests": [], **asked})
