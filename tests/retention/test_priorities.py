"""Priorities by token range, for a time, under any policy and index."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import (
    EventKind,
    Keep,
    Request,
    Retention,
    TokenRange,
    UsageError,
)
from kvframe.stats import redrive

from .helpers import SIZE, manager, prompt, serve, squeeze, start, there


def front(blocks: int, keep: Keep) -> Retention:
    return Retention([TokenRange(0, blocks * SIZE, keep)])


def every(keep: Keep) -> Retention:
    return Retention([TokenRange(0, None, keep)], decode=keep)


@pytest.mark.scenario("V3", "S22")
def test_a_range_is_kept_for_its_time_then_it_is_plain_lru(index: str) -> None:
    kv = manager(index, 8)
    kv.expire_until(1_000)
    serve(kv, 1, 2, 3, 4, retention=front(2, Keep(80, 30)))
    serve(kv, 5, 6, 7, 8)
    kv.expire_until(1_010)
    squeeze(kv, 6)
    assert (there(kv, 1, 2, 3), there(kv, 5)) == (2, 0)
    serve(kv, 5, 6)
    assert kv.expire_until(1_040).changed == 2
    squeeze(kv, 2)
    assert (there(kv, 1, 2), there(kv, 5, 6)) == (0, 2)


@pytest.mark.scenario("V5", "T37")
def test_the_lower_priority_dies_first_even_if_newer(index: str) -> None:
    kv = manager(index, 4)
    for block, priority in enumerate([1, 0, 100, 36], 1):
        serve(kv, block, retention=every(Keep(priority)))
    dead = []
    for _ in range(4):
        squeeze(kv, 1)
        dead += [block for block in (1, 2, 3, 4) if block not in dead and not there(kv, block)]
    assert dead == [2, 1, 4, 3]


@pytest.mark.scenario("V34")
def test_breakpoints_say_what_is_worth_keeping(index: str) -> None:
    """Up to the breakpoint it stays for five minutes; behind it goes first."""
    kv = manager(index, 8)
    asked = Retention([TokenRange(0, 8, Keep(60, 300)), TokenRange(8, None, Keep(0))])
    seq = start(kv, 1, 2, 3, 4, retention=asked)
    usage = kv.stats.request_usage(seq)
    assert (usage.read, usage.created) == (0, 16)
    kv.release(seq)
    serve(kv, 5, 6)
    squeeze(kv, 2)
    assert (there(kv, 1, 2, 3), there(kv, 5, 6)) == (2, 2)
    seq = start(kv, 1, 2, 3, retention=asked)
    assert kv.stats.request_usage(seq)[:2] == (8, 4)


def test_a_preempted_request_comes_back_with_what_it_asked(index: str) -> None:
    kv = manager(index, 8)
    back = kv.preempt(start(kv, 1, 2, retention=every(Keep(70))))
    grant = kv.allocate(back)
    kv.append(grant.seq, prompt(3))
    kv.commit(grant.seq, 3 * SIZE)
    kv.release(grant.seq)
    blocks = kv.lookup([*prompt(1, 2, 3), 9]).blocks[0]
    assert [kv.pins.block_priority(int(block)).priority for block in blocks] == [70, 70, 70]


@pytest.mark.scenario("I10", "I11")
def test_the_log_says_it_and_is_redriven(index: str) -> None:
    kv = manager(index, 8, sessions=True)
    serve(kv, 1, 2, retention=front(1, Keep(80, 5)), session=3)
    serve(kv, 1, 4, session=4)
    kv.pins.hint(3, "retain", keep=Keep(50, 2**40))
    kv.expire_until(7)
    kv.pressure.touch([start(kv, 6)])
    squeeze(kv, 3)
    log = kv.log.take()
    kinds = {event.kind for event in log}
    assert {EventKind.RETAIN, EventKind.CLOCK, EventKind.HINT, EventKind.TOUCH} <= kinds
    again = manager(index, 8, sessions=True)
    assert len(redrive(log, again)) == len(log)
    assert np.array_equal(again.inspect.eviction_order(), kv.inspect.eviction_order())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Keep(101), "priority = 101: must be an integer from 0 to 100"),
        (lambda: Keep(1, -1), "duration = -1: must be an integer from 0"),
        (lambda: Keep(1, then=-1), "then = -1"),
        (lambda: Keep(1, decay="slow"), "decay = 'slow'"),  # type: ignore[arg-type]
        (lambda: TokenRange(4, 4, Keep(1)), r"range \[4, 4\)"),
        (lambda: TokenRange(0, 2**32, Keep(1)), "at most 4294967295"),
        (
            lambda: Request([1], retention=3),
            "retention = 3: must be a Retention",
        ),
    ],
)
def test_what_cannot_be_is_told(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]
