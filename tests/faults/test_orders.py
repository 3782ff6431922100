"""Whatever the order in which jobs of tiers run, fail and are heard of: no wrong byte, no leak.

``make test-all`` tries every order of every history, with and without one failure; ``make test``
every order without one of those that have few, and some of the others. ``-s`` prints the counts.
"""

from __future__ import annotations

from itertools import product

import pytest

from ..amounts import ALL
from .orders import HISTORIES, Choices, orders, some_orders

MANY = {"a store that evicts", "a backup that evicts"}
SOME = 12

pytestmark = pytest.mark.scenario("T1", "T5", "T7", "T15")


def test_the_choices_are_counted_like_digits() -> None:
    given: list[int] | None = []
    seen = []
    while given is not None:
        choices = Choices(given)
        first = choices.of(2)
        seen.append((first, choices.of(3) if first else choices.of(1)))
        given = choices.next()
    assert seen == [(0, 0), *product([1], range(3))]


@pytest.mark.parametrize("name", HISTORIES)
def test_no_order_of_jobs_gives_wrong_bytes_or_leaks(name: str) -> None:
    if name in MANY and not ALL:
        told = some_orders(name, SOME, failing=False)
        print(f"{name}: {SOME} orders, {dict(told)}")
        return
    count, told = orders(name, failing=False)
    print(f"{name}: all {count} orders, {dict(told)}")


@pytest.mark.parametrize("name", HISTORIES)
def test_nor_if_any_job_fails_on_the_way(name: str) -> None:
    if not ALL:
        print(f"{name}: {SOME} orders, {dict(some_orders(name, SOME, failing=True))}")
        return
    count, told = orders(name, failing=True)
    print(f"{name}: all {count} orders, {dict(told)}")
