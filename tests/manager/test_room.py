"""Room: pressure, reserve, whole-sequence admission, preemption order, and a pool that changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    GroupConfig,
    KVCacheManager,
    NeverFitsError,
    Pressure,
    PressureConfig,
    Request,
    UsageError,
)
from kvframe.policies import BatchedEviction

from ..oracle.policies import known, serving
from .helpers import cached, manager, registry, state

NORMAL, HIGH, CRITICAL = Pressure


def room(blocks: int, **pressure: Any) -> KVCacheManager:
    cache = CacheConfig(capacity=blocks, block_size=4)
    return KVCacheManager(Config(cache=cache, pressure=PressureConfig(**pressure)))


# --- pressure -------------------------------------------------------------------------------------


@pytest.mark.scenario("FE-B11", "FE-B12")
def test_levels_rise_at_their_mark_and_fall_below_the_one_before() -> None:
    kv = room(20)
    assert (kv.usage(), kv.pressure()) == (0.0, NORMAL)
    lent: list[int] = []
    told = []
    for used in (16, 17, 18, 15, 14, 13, 16, 19, 18, 17, 16, 14, 20, 13, 20, 14, 0):
        if used > len(lent):
            out = np.zeros(used - len(lent), np.int32)
            kv.lend(out)
            lent += out.tolist()
        else:
            kv.give_back(np.array(lent[used:], np.int32))
            del lent[used:]
        assert kv.usage() == used / 20
        told.append(kv.pressure())
    rising = [NORMAL, HIGH, HIGH, HIGH, HIGH, NORMAL]
    falling = [NORMAL, CRITICAL, CRITICAL, CRITICAL, HIGH, HIGH]
    assert told == [*rising, *falling, CRITICAL, NORMAL, CRITICAL, HIGH, NORMAL]


@pytest.mark.scenario("FE-B12", "CB-B14")
def test_cached_blocks_are_no_pressure() -> None:
    kv = room(4)
    cached(kv, range(16))
    assert (kv.counts().cached, kv.usage(), kv.pressure()) == (4, 0.0, NORMAL)


@pytest.mark.scenario("CB-B14")
@pytest.mark.parametrize(
    "marks",
    [
        {"low": 0.0},
        {"low": 0.9},
        {"high": 0.7},
        {"critical": 1.01},
        {"high": 0.95},
        {"high": float("nan")},
        {"reserve": 8},
        {"reserve": -1},
    ],
)
def test_marks_out_of_order_are_refused(marks: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"pressure"):
        room(8, **marks)


@pytest.mark.scenario("FE-B13", "I14")
def test_a_policy_may_ask_the_manager_while_it_decides() -> None:
    told = []

    class Asks(BatchedEviction):
        def score(self, candidates: Any, out: Any) -> None:
            told.append((kv.pressure(), kv.counts().cached, kv.usage()))
            out[:] = 0

    kv = manager(4, policy="asks", known=registry("asks", lambda _: Asks()))
    cached(kv, range(16))
    kv.admit([9] * 4)
    assert told == [(NORMAL, 4, 0.0)]


# --- who is let in --------------------------------------------------------------------------------


@pytest.mark.scenario("VT29")
def test_admissions_leave_the_reserve_to_those_that_run() -> None:
    kv = room(6, reserve=2)
    runs = kv.admit([1] * 16, chunk=8).seq
    before = state(kv, [runs])
    with pytest.raises(CapacityError, match="needs 5 blocks, but only 4"):
        kv.admit([2] * 12)
    assert state(kv, [runs]) == before
    assert kv.admit([2] * 12, partial=True).granted_tokens == 8
    kv.extend(runs, 16)
    assert kv.counts().free == 0


def test_the_reserve_keeps_nobody_out_of_an_empty_house() -> None:
    kv = room(6, reserve=2)
    kv.release(kv.admit([1] * 24).seq)


@pytest.mark.scenario("U-12", "VT28")
def test_what_can_never_fit_is_refused_at_once() -> None:
    kv = manager(4)
    kv.release(kv.admit([1] * 12, max_seq_len=16).seq)
    for most in (17, 2**32 - 1):
        with pytest.raises(NeverFitsError, match="it can never fit"):
            kv.admit([1] * 12, max_seq_len=most)
    with pytest.raises(NeverFitsError):
        kv.admit([1] * 17, chunk=4)
    assert kv.counts() == (4, 0, 0, 4)


@pytest.mark.scenario("VT28")
def test_a_window_bounds_what_a_long_prompt_needs() -> None:
    window = GroupConfig(name="w", kind="sliding_window", window=4)
    kv = manager(4, groups=[window])
    seq = kv.admit([1] * 100, chunk=4, full_sequence_must_fit=True, max_seq_len=200).seq
    for until in range(8, 104, 4):
        kv.commit(seq, until - 4)
        kv.extend(seq, until)
    kv.check_integrity()
    with pytest.raises(NeverFitsError):
        manager(4, groups=[window, GroupConfig(name="full")]).admit([1] * 100, chunk=4)


@pytest.mark.scenario("VT28", "U-12")
@pytest.mark.parametrize("size", [1, 3, 4, 9])
@pytest.mark.parametrize("chunk", [2, 3, 5, 6, 10])
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_a_chunk_that_lies_across_blocks_needs_them_all(size: int, chunk: int, lag: int) -> None:
    """What is let in runs to its end alone; else it would be preempted for ever."""
    for tokens in (1, chunk, chunk + 1, 2 * chunk + lag, 40):
        # Blocks that the token at a place attends to, and its own.
        first = [max(at - lag, 0) // chunk * chunk // size for at in range(tokens)]
        most = max(at // size + 1 - start for at, start in enumerate(first))
        group = GroupConfig(name="c", kind="chunked", chunk=chunk, lag=lag)
        kv = manager(most, size, groups=[group])
        seq = kv.admit([1] * tokens, chunk=1, read_cache=False).seq
        for until in range(2, tokens + 1):
            kv.commit(seq, until - 1)
            kv.extend(seq, until)
        kv.check_integrity()
        if most > 1:
            with pytest.raises(NeverFitsError):
                manager(most - 1, size, groups=[group]).admit([1] * tokens, chunk=1)


@pytest.mark.scenario("U-11")
def test_a_shared_prefix_is_admitted_for_its_rest() -> None:
    kv = manager(6)
    head = list(range(12))
    kv.commit(kv.admit([*head, *[20] * 4]).seq, 16)
    shares = kv.admit([*head, *[30] * 4], full_sequence_must_fit=True)
    assert (shares.cached_tokens, kv.counts().free) == (12, 1)
    kv.commit(shares.seq, 16)
    same = kv.admit([*head, *[30] * 4])
    assert (same.cached_tokens, kv.counts().free) == (12, 0)


@pytest.mark.scenario("U-13")
def test_two_that_would_outgrow_the_pool_do_not_run_together() -> None:
    kv = manager(10)
    first = kv.admit([1] * 4, full_sequence_must_fit=True, max_seq_len=24).seq
    second = Request([2] * 4, full_sequence_must_fit=True, max_seq_len=24)
    for grown in range(5):
        with pytest.raises(CapacityError):
            kv.admit(second)
        kv.commit(first, 4 * (grown + 1))
        kv.append(first, [7] * 4)
    back = kv.preempt(first)
    assert kv.admit(second).granted_tokens == 4
    # Who was promised its room is so again when it comes back.
    with pytest.raises(CapacityError):
        kv.admit(back)


# --- who gives way --------------------------------------------------------------------------------


@pytest.mark.scenario("V21")
def test_the_cheapest_gives_way_first() -> None:
    kv = manager(900, 16)
    seqs = []
    for at, length in enumerate((8000, 4000, 100)):
        seqs.append(kv.admit([at] * length, priority=[1, 0, 2][at]).seq)
        kv.commit(seqs[-1], length)
    order = kv.preemption_order(seqs)
    assert [v.seq for v in order] == seqs[::-1]
    assert [(v.frees, v.computed) for v in order] == [(7, 100), (250, 4000), (500, 8000)]
    last = kv.preemption_order(seqs, "last-admitted")
    assert [v.seq for v in last] == seqs[::-1]
    low = kv.preemption_order(np.array(seqs), "lowest-priority")
    assert [v.seq for v in low] == [seqs[1], seqs[0], seqs[2]]
    with pytest.raises(UsageError, match="fewest-computed, last-admitted"):
        kv.preemption_order(seqs, "nearest")  # type: ignore[arg-type]


@pytest.mark.scenario("CB-B6", "CB-B5", "CB-B13")
def test_sharers_are_not_ended_for_nothing() -> None:
    kv = manager(8)
    one = kv.admit([1] * 16).seq
    kv.commit(one, 16)
    forks = [kv.fork(one) for _ in range(3)]
    empty = kv.admit([]).seq
    other = kv.admit([2] * 4).seq
    alone = kv.preemption_order([one, *forks, empty, other])
    assert [(v.seq, v.frees) for v in alone] == [(other, 1)]
    kv.append(forks[0], [3] * 5)
    assert {v.seq: v.frees for v in kv.preemption_order([one, *forks])} == {forks[0]: 2}
    for victim in kv.preemption_order([*forks, other]):
        before = kv.counts()
        kv.preempt(victim.seq)
        now = kv.counts()
        assert now.free + now.cached - before.free - before.cached == victim.frees


# --- making room ----------------------------------------------------------------------------------


@pytest.mark.scenario("FE-5", "FE-B14")
def test_collecting_frees_what_is_cached_and_no_more() -> None:
    kv = manager(8)
    assert kv.collect(8) == 0
    cached(kv, range(12))
    kv.admit([9] * 4)
    assert (kv.collect(4), kv.collect(5)) == (0, 1)
    assert kv.lookup(list(range(13))).tokens == 8
    assert kv.collect(2**32 - 1) == 2
    assert kv.counts() == (7, 0, 1, 8)
    assert kv.stats()["evictions"] == 3


@pytest.mark.scenario("I8")
@pytest.mark.parametrize("policy", serving())
def test_a_pool_grows_and_shrinks_under_every_policy(policy: str) -> None:
    kv = manager(8, policy=policy, known=known())
    cached(kv, range(12))
    runs = kv.admit([50] * 8).seq
    kv.commit(runs, 8)
    before = state(kv, [runs])
    with pytest.raises(CapacityError, match="2 blocks from id 3 on are in use, the first is 3"):
        kv.resize(3)
    assert state(kv, [runs]) == before
    kv.resize(5)
    assert (kv.options()["blocks"], kv.counts()) == (5, (0, 3, 2, 5))
    kv.release(runs)
    kv.resize(2)
    kv.check_integrity()
    assert kv.lookup(list(range(13))).tokens == 8
    kv.resize(12)
    kv.check_integrity()
    for head in (100, 200, 300, 400):
        cached(kv, range(head, head + 16))
        kv.check_integrity()
    assert kv.counts() == (0, 12, 0, 12)
    assert kv.lookup([*range(400, 417)]).tokens == 16


def test_a_pool_may_be_neither_empty_nor_all_reserve() -> None:
    kv = room(8, reserve=3)
    for blocks in (0, 3):
        with pytest.raises(UsageError, match="must be"):
            kv.resize(blocks)
    assert kv.counts().total == 8


@pytest.mark.scenario("VT13", "ST13")
def test_asleep_nobody_comes_in() -> None:
    kv = manager(8)
    seq = kv.admit([]).seq
    with pytest.raises(UsageError, match="1 sequences, 0 blocks in use"):
        kv.sleep()
    kv.release(seq)
    cached(kv, range(8))
    kv.sleep()
    assert kv.counts() == (8, 0, 0, 8)
    for call in (lambda: kv.admit([1]), lambda: kv.lend(np.zeros(1, np.int32))):
        with pytest.raises(UsageError, match="wake it first"):
            call()
    kv.set_fingerprint("new")
    kv.resize(4)
    kv.wake()
    assert kv.admit(list(range(9))).cached_tokens == 0


# --- new weights ----------------------------------------------------------------------------------


@pytest.mark.scenario("V29")
@pytest.mark.parametrize("change", ["new", "back and forth", "clear"])
def test_nothing_of_the_old_weights_is_found_again(change: str) -> None:
    kv = manager(32, hash="xxh3-128")
    prompt = list(range(13))
    cached(kv, prompt)
    keys = kv.hash_blocks(prompt)
    preempted = kv.admit(prompt).seq
    kv.commit(preempted, 13)
    request = kv.preempt(preempted)
    runs = kv.admit([7] * 6).seq
    leased = kv.admit([8] * 8).seq
    kv.commit(leased, 8)
    lease = kv.lease(leased, 8)
    kv.release(leased, fence=3)
    loading = kv.admit([9] * 9, num_external_tokens=8)
    assert loading.load is not None
    if change == "clear":
        kv.clear_cache()
    else:
        kv.set_fingerprint("new")
    if change == "back and forth":
        kv.set_fingerprint("")
    assert (kv.hash_blocks(prompt) == keys).all() == (change != "new")
    # What ran computes on, and leaves nothing; nor does what was under way.
    kv.commit(runs, 6)
    kv.append(runs, [7] * 3)
    kv.commit(runs, 9)
    fork = kv.fork(runs)
    kv.loaded(loading.load, 2)
    kv.done(lease)
    kv.step(passed=3, release=[runs, fork, loading.seq])
    assert kv.counts() == (32, 0, 0, 32)
    for text in (prompt, [7] * 9, [8] * 9, [9] * 9):
        assert kv.lookup(text).tokens == 0
    # One that was preempted before comes back as a new one, and is found under the new weights.
    grant = kv.admit(request)
    assert grant.cached_tokens == 0
    kv.commit(grant.seq, 13)
    assert kv.lookup(prompt).tokens == 12
    assert kv.stats()["collisions"] == 0
    kv.check_integrity()
