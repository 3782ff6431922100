"""Misuse: a typed error that names the value, and a manager that is as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    HandleError,
    KVCacheManager,
    KVFrameError,
    NeverFitsError,
    StaleHandleError,
    UnknownSequenceError,
)

from .helpers import cached, manager, state

UNKNOWN = [0, 1, 7, 99 << 32, (1 << 32) | 77, 2**64 - 1]


def everything(kv: KVCacheManager, seq: int) -> list[Callable[[], object]]:
    """Every call that takes a sequence."""
    table, slots = np.zeros((1, 8), np.int32), np.zeros(4, np.int64)
    return [
        lambda: kv.append(seq, [1]),
        lambda: kv.append(seq, []),
        lambda: kv.extend(seq, 1),
        lambda: kv.commit(seq, 1),
        lambda: kv.truncate(seq, 0),
        lambda: kv.fork(seq),
        lambda: kv.release(seq),
        lambda: kv.lengths(seq),
        lambda: kv.block_table(seq),
        lambda: kv.block_tables([seq], table),
        lambda: kv.slot_mapping([seq], [0], [0], slots),
        lambda: kv.step(release=[seq]),
        lambda: kv.step(commit=([seq], [1])),
        lambda: kv.step(truncate=([seq], [0])),
        lambda: kv.step(append=[seq], tokens=[1]),
    ]


@pytest.mark.scenario("CB-7", "I13", "SA-4")
@pytest.mark.parametrize("seq", UNKNOWN)
def test_a_handle_never_given_out(seq: int) -> None:
    kv = manager()
    live = kv.allocate([1, 2]).seq
    before = state(kv, [live])
    for call in everything(kv, seq):
        with pytest.raises(UnknownSequenceError, match=f"sequence {seq} is unknown"):
            call()
    assert state(kv, [live]) == before
    kv.check_integrity()


@pytest.mark.scenario("IL-B7", "FE-B4", "I13", "S10", "SA-2")
def test_a_stale_handle_does_not_alias() -> None:
    kv = manager()
    stale = kv.allocate([1, 2]).seq
    kv.release(stale)
    live = kv.allocate([3, 4]).seq
    assert live != stale
    before = state(kv, [live])
    for call in everything(kv, stale):
        with pytest.raises(StaleHandleError, match=f"sequence {stale} was released"):
            call()
    assert state(kv, [live]) == before
    kv.check_integrity()


def test_handles_of_another_manager_are_not_taken_for_ones_own() -> None:
    one, two = manager(), manager()
    for _ in range(3):
        one.release(one.allocate([1]).seq)
    foreign = one.allocate([1]).seq
    two.allocate([1])
    with pytest.raises(HandleError):
        two.release(foreign)


@pytest.mark.scenario("I13")
def test_the_tree_of_errors_catches_what_it_says() -> None:
    kv = manager(2)
    with pytest.raises(KeyError):
        kv.release(5)
    with pytest.raises(HandleError):
        kv.done(1)
    with pytest.raises(ValueError, match="commit of 9"):
        kv.commit(kv.allocate([1]).seq, 9)
    for misuse in (
        lambda: kv.allocate([1] * 99),
        lambda: kv.allocate([-1]),
        lambda: kv.release(5),
        lambda: kv.failed(3),
    ):
        with pytest.raises(KVFrameError) as caught:
            misuse()
        assert "\n" not in str(caught.value)
        assert not str(caught.value).startswith(("'", '"'))
    with pytest.raises(NeverFitsError) as never:
        kv.allocate([1] * 99)
    assert not isinstance(never.value, CapacityError)


LENGTHS: dict[str, tuple[Callable[[KVCacheManager, int], object], str]] = {
    "commit past the end": (lambda kv, s: kv.commit(s, 7), "commit of 7 tokens, .* slots for 6"),
    "commit far past": (lambda kv, s: kv.commit(s, 1000), "commit of 1000 tokens"),
    "commit backwards": (lambda kv, s: kv.commit(s, 4), "commit of 4 tokens, but 5 are already"),
    "truncate past": (lambda kv, s: kv.truncate(s, 7), "truncate = 7: the sequence has 6 tokens"),
    "extend backwards": (lambda kv, s: kv.extend(s, 5), "extend of 5 tokens, but 6"),
    "extend past": (lambda kv, s: kv.extend(s, 7), "extend = 7: only 6 tokens are known"),
    "grow past the pool": (lambda kv, s: kv.append(s, [0] * 40), "can never fit"),
    "grow past what is free": (lambda kv, s: kv.append(s, [0] * 8), "needs 2 blocks, but only 1"),
    "admit past what is free": (lambda kv, s: kv.allocate([8] * 9), "needs 3 blocks, but only 1"),
    "admit on a hit": (
        lambda kv, s: kv.allocate([*range(4), *[7] * 12]),
        "needs 3 blocks, but only",
    ),
    "unknown ticket": (lambda kv, s: kv.done(44), "ticket 44 is unknown"),
    "failed ticket": (lambda kv, s: kv.failed(0), "ticket 0 is unknown"),
    "loan": (lambda kv, s: kv.blocks.take(out=np.zeros(2, np.int32)), "needs 2 blocks, but only 1"),
    "steps apart": (lambda kv, s: kv.step(commit=([s], [5, 6])), "commit: 1 sequences, 2 lengths"),
    "ids missing": (lambda kv, s: kv.step(append=[s], counts=[2], tokens=[1]), "append: 1 seq"),
    "counts missing": (lambda kv, s: kv.step(append=[s, s], counts=[1], tokens=[1]), "append: 2"),
    "ids too many": (lambda kv, s: kv.step(append=[s], tokens=[1, 2]), "append: 1"),
    "ids alone": (lambda kv, s: kv.step(tokens=[1, 2]), "append: 0"),
}


@pytest.mark.scenario("MK-9", "MK-B10", "MK-B6", "MK-7", "I3", "CB-B16", "FE-B15")
@pytest.mark.parametrize("name", LENGTHS)
def test_a_refused_call_has_changed_nothing(name: str) -> None:
    call, message = LENGTHS[name]
    kv = manager(4)
    seq = kv.allocate(list(range(6))).seq
    kv.commit(seq, 5)
    cached(kv, [40] * 4)
    kv.allocate([77])
    before = state(kv, [seq])
    with pytest.raises(KVFrameError, match=message):
        call(kv, seq)
    assert state(kv, [seq]) == before
    kv.check_integrity()
    kv.append(seq, [6, 7])
    kv.commit(seq, 8)


@pytest.mark.scenario("IL-B7")
def test_a_ticket_settles_once() -> None:
    kv = manager()
    seq = kv.allocate([1, 2]).seq
    kv.append(kv.fork(seq), [3])
    plan = kv.take_plan()
    assert plan
    assert not kv.take_plan()
    with pytest.raises(HandleError, match=f"ticket {plan.ticket} is named twice: a step settles"):
        kv.step(done=[plan.ticket, plan.ticket])
    with pytest.raises(HandleError):
        kv.step(done=[plan.ticket], failed=[plan.ticket])
    kv.done(plan.ticket)
    for settle in (kv.done, kv.failed):
        with pytest.raises(HandleError, match=f"ticket {plan.ticket} is unknown or already"):
            settle(plan.ticket)
    kv.check_integrity()
