"""Who is told of pressure, who gives way for it, and whether a request would fit."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from kvframe import (
    AllocStatus,
    CacheConfig,
    Config,
    KVCacheManager,
    KVFrameError,
    NeverFitsError,
    Pressure,
    PressureConfig,
    Request,
    UsageError,
)

from .helpers import cached, manager, state

NORMAL, HIGH, CRITICAL = Pressure


def lent(kv: KVCacheManager, count: int) -> Any:
    out = np.zeros(count, np.int32)
    kv.blocks.take(out=out)
    return out


@pytest.mark.scenario("FE-B11", "FE-B13", "I14")
def test_a_callback_is_told_of_each_change_and_may_use_the_manager() -> None:
    kv = manager(20)
    told: list[tuple[Pressure, Pressure]] = []

    def tell(before: Pressure, after: Pressure) -> None:
        told.append((before, after))
        assert kv.pressure.level() in Pressure
        if after == CRITICAL:
            kv.blocks.free(blocks[:6])
            kv.pressure.remove_callback(tell)
            kv.pressure.add_callback(tell)

    kv.pressure.add_callback(tell)
    blocks = lent(kv, 16)
    assert told == []
    more = lent(kv, 1)
    kv.blocks.free(more)
    assert told == [(NORMAL, HIGH)]
    lent(kv, 3)
    # The change that the callback made comes after the one it was told of.
    assert told[1:] == [(HIGH, CRITICAL), (CRITICAL, NORMAL)]
    assert kv.pressure.remove_callback(tell) == 1
    assert kv.pressure.remove_callback(tell) == 0
    lent(kv, 7)
    assert len(told) == 3


@pytest.mark.scenario("FE-B11")
def test_asking_does_not_move_the_level() -> None:
    """Use that rose and fell between two questions has been seen all the same."""
    kv = manager(20)
    kv.blocks.free(lent(kv, 20)[:5])
    assert [kv.pressure.level() for _ in range(3)] == [HIGH] * 3
    assert kv.pressure.usage() == 0.75
    kv.step()
    assert kv.pressure.level() == HIGH


def test_a_step_is_one_change_at_the_most() -> None:
    kv = manager(10)
    told: list[Any] = []
    kv.pressure.add_callback(lambda *change: told.append(change))
    seqs = [kv.allocate([i] * 16).seq for i in (1, 2)]
    assert told == [(NORMAL, HIGH)] or told == []
    told.clear()
    kv.step(release=seqs, allocate=[Request([3] * 16), Request([4] * 16)])
    assert told == []


def test_what_a_callback_raises_does_not_lose_the_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: caught.append(info.exc_value))
    kv = manager(4)
    kv.pressure.add_callback(lambda before, after: 1 // 0)
    grant = kv.allocate([1] * 16)
    assert kv.lengths(grant.seq).slots == 16
    assert [type(error) for error in caught] == [ZeroDivisionError]
    kv.check_integrity()


def test_a_callback_that_holds_its_manager_does_not_keep_it() -> None:
    class Engine:
        def __init__(self) -> None:
            self.kv = manager(4)
            self.kv.pressure.add_callback(self.tell)

        def tell(self, before: Pressure, after: Pressure) -> None: ...

    engine = Engine()
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None


@pytest.mark.scenario("CB-B7", "CB-B11", "CB-B6")
def test_as_many_give_way_as_bring_use_down() -> None:
    """CB-11: eight of one block each in ten; down to one half takes three."""
    kv = manager(10)
    seqs = [kv.allocate([i]).seq for i in range(8)]
    chosen = kv.pressure.preemption_order(seqs, "last-admitted", usage=0.5)
    assert [victim.seq for victim in chosen] == seqs[:-4:-1]
    assert [v.seq for v in kv.pressure.preemption_order(seqs[:1], usage=0.0)] == seqs[:1]
    assert kv.pressure.preemption_order(seqs, usage=0.8) == []
    for victim in chosen:
        kv.preempt(victim.seq)
    assert kv.pressure.usage() == 0.5


@pytest.mark.scenario("CB-B6", "CB-B13")
def test_who_has_ended_meanwhile_costs_nobody_their_request() -> None:
    kv = manager(16)
    seqs = [kv.allocate([token] * 16).seq for token in range(4)]

    def end_the_first(before: Pressure, after: Pressure) -> None:
        if seqs[0] in kv.inspect.running():
            kv.release(seqs[0])

    kv.pressure.add_callback(end_the_first)
    back = kv.pressure.preempt_to(0.0, seqs, "last-admitted")
    assert [np.asarray(request.prompt)[0] for request in back] == [3, 2, 1]
    assert (kv.inspect.running().size, kv.pressure.usage()) == (0, 0.0)
    kv.check_integrity()


def test_what_sharers_free_is_counted_once_and_together() -> None:
    kv = manager(20)
    parent = kv.allocate([1] * 8).seq
    kv.commit(parent, 8)
    child = kv.fork(parent)
    kv.append(child, [2] * 4)
    alone = kv.allocate([3] * 4).seq
    order = kv.pressure.preemption_order([child, parent, alone], "last-admitted", usage=0.0)
    # While the child runs, the end of its parent would free nothing.
    assert [(v.seq, v.frees) for v in order] == [(alone, 1), (child, 1), (parent, 2)]
    assert [v.seq for v in kv.pressure.preemption_order([parent, child, alone])] == [alone, child]


@pytest.mark.scenario("I13", "CB-B14")
def test_a_wrong_question_for_victims_is_refused() -> None:
    kv = manager(4)
    seq = kv.allocate([1]).seq
    with pytest.raises(UsageError, match="named twice"):
        kv.pressure.preemption_order([seq, seq])
    for usage in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="usage"):
            kv.pressure.preemption_order([seq], usage=usage)


@pytest.mark.scenario("FE-B17", "U-12", "U-13")
@pytest.mark.parametrize("reserve", [0, 2])
def test_can_admit_agrees_with_admit(reserve: int) -> None:
    cache = CacheConfig(capacity=8, block_size=4)
    kv = KVCacheManager(Config(cache=cache, pressure=PressureConfig(reserve=reserve)))
    cached(kv, [9] * 8)
    kv.allocate([1] * 8, max_seq_len=12, full_sequence_must_fit=True)
    requests = [
        Request([2] * n, max_seq_len=most, full_sequence_must_fit=whole, partial=partial)
        for n in (1, 8, 12, 24, 36)
        for most in (0, 28, 40)
        if most == 0 or most >= n
        for whole in (False, True)
        for partial in (False, True)
    ]
    seen = set()
    for request in [*requests, Request([9] * 12), Request([9] * 30)]:
        before = state(kv)
        refused = kv.stats.counters()["refused"]
        fit = kv.can_allocate(request)
        assert state(kv) == before
        assert kv.stats.counters()["refused"] == refused
        try:
            kv.release(kv.allocate(request).seq)
            admitted = AllocStatus.OK
        except NeverFitsError:
            admitted = AllocStatus.NEVER
        except KVFrameError:
            admitted = AllocStatus.LATER
        assert fit == admitted
        seen.add(fit)
    assert seen == set(AllocStatus)


@pytest.mark.scenario("FE-B14")
def test_available_is_what_can_be_had() -> None:
    kv = manager(8)
    cached(kv, range(12))
    kv.allocate([7])
    counts = kv.counts()
    assert (counts.available, counts.free, counts.cached) == (7, 4, 3)
    lent(kv, counts.available)


def test_asleep_it_fits_later() -> None:
    kv = manager(4)
    kv.sleep()
    assert kv.can_allocate(Request([1])) == AllocStatus.LATER
    kv.wake()
    assert kv.can_allocate(Request([1])) == AllocStatus.OK
