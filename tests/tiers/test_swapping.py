"""Preemption by swap: exact, all or nothing, and only where it is faster."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest

from kvframe import BusyError, CapacityError, HandleError, Request, StaleHandleError, UsageError
from kvframe.tiers import SwapCost, Swapped, Thread
from kvframe.tiers.worth import RETRY

from .helpers import BLOCK, SHAPE, Engine, host, text

CHEAP = SwapCost(parameters=1e9, flops=1e6, bandwidth_out=1e9, bandwidth_in=1e9)
DEAR = SwapCost(parameters=1.0, flops=1e15, bandwidth_out=1.0, bandwidth_in=1.0)


def running(engine: Engine, tokens: list[int]) -> int:
    grant = engine.start(tokens)
    engine.settle()
    engine.compute(grant.seq)
    seq: int = grant.seq
    return seq


def bytes_of(engine: Engine, seq: int, tokens: int) -> list[Any]:
    table = engine.kv.block_table(seq)
    return [
        np.stack(pool.read(layer, table, tokens)) for pool in engine.pools for layer in range(2)
    ]


@pytest.mark.scenario("I12", "FE-B2", "FE-B3")
@pytest.mark.parametrize("tokens", [1, 4, 13, 16, 18])
@pytest.mark.parametrize("parts", [1, 2])
def test_out_and_back_is_exact_and_out_of_reach_meanwhile(tokens: int, parts: int) -> None:
    engine = Engine([host(16)], blocks=12, parts=parts, poison=True)
    one = text(1, tokens)
    seq = running(engine, one)
    before = bytes_of(engine, seq, tokens)
    swapped = engine.tiers.swap_out(seq)
    with pytest.raises(StaleHandleError):
        engine.kv.block_table(seq)
    with pytest.raises(UsageError, match=r"prompt is a Swapped: Tiers.swap_in brings it back"):
        engine.kv.allocate(swapped)  # type: ignore[arg-type]
    with pytest.raises(BusyError, match="still on its way out"):
        engine.tiers.swap_in(swapped)
    engine.settle()
    # Others take every block meanwhile, in another order.
    other = running(engine, text(2, 45))
    assert engine.kv.counts().free == 0
    engine.kv.release(other)
    engine.forget()
    order = np.zeros(12, np.int32)
    engine.kv.blocks.take(out=order)
    engine.kv.blocks.free(order[::-1])
    grant = engine.tiers.swap_in(swapped)
    engine.texts[grant.seq] = one
    assert engine.tiers.drain().landed == [grant.seq]
    assert engine.kv.lengths(grant.seq).committed == tokens
    for was, now in zip(before, bytes_of(engine, grant.seq, tokens), strict=True):
        assert np.array_equal(was, now)
    assert engine.compute(grant.seq) == 0
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)
    with pytest.raises(HandleError, match="taken once"):
        engine.tiers.swap_in(swapped)
    engine.tiers.check_integrity()


@pytest.mark.scenario("FE-B5", "VT61")
def test_a_swap_that_does_not_fit_changes_nothing_and_ids_of_tiers_are_apart() -> None:
    engine = Engine([host(3)], blocks=8)
    seq = running(engine, text(1, 17))
    before = (engine.kv.counts(), engine.kv.lengths(seq), engine.tiers.host.index.counts())
    with pytest.raises(CapacityError, match="tier host has no room for 5 pages: needs 5"):
        engine.tiers.swap_out(seq)
    assert before == (
        engine.kv.counts(),
        engine.kv.lengths(seq),
        engine.tiers.host.index.counts(),
    )
    engine.check(seq, 17)
    # What is on its way is named: it may be the cause.
    engine = Engine([host(6)], blocks=8)
    seq = running(engine, text(1, 17))
    assert engine.tiers.offload(seq) == 4
    with pytest.raises(CapacityError, match=r"of 6; pages in flight: 4 of host$"):
        engine.tiers.swap_out(seq)
    engine.settle()
    # Two sequences share a prefix: both go out whole, and each comes back whole.
    engine = Engine([host(16)], blocks=12)
    first, second = running(engine, text(1, 10)), running(engine, [*text(1, 8), 5, 6, 7])
    out = [engine.tiers.swap_out(seq) for seq in (first, second)]
    engine.settle()
    assert [len(one) for one in out] == [3, 3]
    engine.forget()
    for one, tokens in zip(out, (10, 11), strict=True):
        grant = engine.tiers.swap_in(one)
        engine.texts[grant.seq] = text(1, 10) if tokens == 10 else [*text(1, 8), 5, 6, 7]
        engine.settle()
        assert engine.compute(grant.seq) == 0
    engine.tiers.check_integrity()
    # A page's number in one tier is no receipt for another.
    with pytest.raises(UsageError, match="swapped = 5: must be a Swapped"):
        engine.tiers.swap_in(5)  # type: ignore[arg-type]


def test_what_is_still_cached_is_not_brought() -> None:
    engine = Engine([host(16)], blocks=12)
    seq = running(engine, text(1, 14))
    swapped = engine.tiers.swap_out(seq)
    engine.settle()
    grant = engine.tiers.swap_in(swapped)
    engine.texts[grant.seq] = text(1, 14)
    assert (grant.cached_tokens, grant.load) == (12, None)
    assert engine.compute(grant.seq) == 0


def test_a_measured_bandwidth_is_that_of_the_copy_and_not_of_the_polls() -> None:
    engine = Engine([host(16)], blocks=12, worker=Thread)
    swapped = engine.tiers.swap_out(running(engine, text(1, 17)))
    time.sleep(0.2)  # a step of the engine
    engine.settle()
    engine.forget()
    engine.tiers.swap_in(swapped)
    time.sleep(0.2)
    engine.settle()
    least = 5 * SHAPE.page_bytes / 0.1
    for rate in (engine.tiers._swap.out_rate.value, engine.tiers._swap.in_rate.value):
        assert rate is not None
        assert rate > least
    engine.tiers.close()


def test_what_host_memory_has_anyway_is_not_swapped_out() -> None:
    """A swap would copy it out once more; only the partial block is computed again."""
    engine = Engine([host(16)], blocks=12)
    seq = running(engine, text(1, 17))
    rate = 10 * SHAPE.page_bytes / 8
    # A token takes 2 seconds, a swap of all five pages 8, and to load four of them 3.2.
    cost = SwapCost(parameters=1e6, flops=1e6, bandwidth_out=rate, bandwidth_in=rate)
    assert cost.prefers_swap(17, 5 * SHAPE.page_bytes)
    engine.tiers.offload(seq)
    again = engine.tiers.preempt(seq, cost)
    assert isinstance(again, Request)
    engine.settle()
    engine.forget()
    grant = engine.tiers.allocate(again)
    engine.settle()
    engine.texts[grant.seq] = text(1, 17)
    assert engine.compute(grant.seq) == 1


@pytest.mark.parametrize(("cost", "loaded"), [(CHEAP, 12), (DEAR, 0)])
def test_a_load_that_is_slower_than_computing_is_left(cost: SwapCost, loaded: int) -> None:
    engine = Engine([host(16)], blocks=12)
    engine.run(text(1, 14))
    engine.forget()
    grant = engine.start(text(1, 14), cost=cost)
    assert grant.external_tokens == loaded
    engine.settle()
    assert engine.compute(grant.seq) == 14 - loaded
    assert engine.tiers.stats()["moved"].get("computed_instead", 0) == (12 - loaded) // BLOCK


def test_of_many_that_would_be_computed_one_is_loaded_all_the_same() -> None:
    engine = Engine([host(16)], blocks=12)
    engine.run(text(1, 14))
    loads = []
    for _ in range(2 * RETRY):
        engine.forget()
        grant = engine.start(text(1, 14), cost=DEAR)
        engine.settle()
        engine.compute(grant.seq)
        engine.kv.release(grant.seq)
        loads.append(grant.external_tokens > 0)
    assert loads == [False] * (RETRY - 1) + [True] + [False] * (RETRY - 1) + [True]


@pytest.mark.scenario("I12", "T35")
@pytest.mark.parametrize("tokens", [2, 3, 4, 6])
def test_the_way_back_takes_no_hit_inside_a_block(tokens: int) -> None:
    """Its copy would be made after the swapped page is there, and over it."""
    engine = Engine([host(16)], blocks=16, options={"partial_hits": True})
    one = text(1, tokens)
    swapped = engine.tiers.swap_out(running(engine, one))
    engine.settle()
    engine.kv.release(running(engine, one[:-1]))  # leaves a partial block behind
    assert engine.kv.lookup(one).tokens > 0
    grant = engine.tiers.swap_in(swapped)
    assert not engine.kv.take_plan()
    engine.settle()
    engine.texts[grant.seq] = one
    engine.check(grant.seq, tokens)
    assert engine.kv.lengths(grant.seq).committed == tokens


@pytest.mark.scenario("T2", "I12")
def test_an_engine_may_settle_the_way_back_itself() -> None:
    engine = Engine([host(16)], blocks=12)
    one = text(1, 18)
    swapped = engine.tiers.swap_out(running(engine, one))
    engine.settle()
    engine.forget()
    grant = engine.tiers.swap_in(swapped)
    assert grant.load is not None
    assert engine.kv.loaded(grant.load, 0) == [grant.seq]
    engine.settle()
    engine.texts[grant.seq] = one
    assert engine.compute(grant.seq) == 18
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)
    engine.tiers.check_integrity()


@pytest.mark.scenario("V29", "I12")
@pytest.mark.parametrize("when", ["leaving", "out", "before"])
def test_what_other_weights_computed_does_not_come_back(when: str) -> None:
    engine = Engine([host(16)], blocks=12)
    one = text(1, 18)
    seq = running(engine, one)
    if when == "before":
        engine.tiers.set_weight_version("new")
        assert isinstance(engine.tiers.preempt(engine.kv.fork(seq), CHEAP), Request)
    swapped = engine.tiers.swap_out(seq)
    if when == "out":
        engine.settle()
    if when != "before":
        engine.tiers.set_weight_version("new")
    engine.settle()
    grant = engine.tiers.swap_in(swapped)
    assert (grant.load, engine.kv.lengths(grant.seq).committed) == (None, 0)
    assert engine.kv.lookup(one).tokens == 0
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)
    engine.kv.release(grant.seq)
    engine.tiers.check_integrity()


@pytest.mark.parametrize("parts", [1, 2])
def test_what_is_on_its_way_out_is_told(parts: int) -> None:
    engine = Engine([host(16)], blocks=12, parts=parts)
    one, two = running(engine, text(1, 18)), running(engine, text(2, 9))
    assert engine.tiers.leaving == 0
    swapped = engine.tiers.swap_out(one)
    assert engine.tiers.leaving == 5
    assert engine.tiers.offload(two) == 2
    assert engine.tiers.leaving == 7
    assert engine.kv.counts().free == 12 - 5 - 3  # held until they are copied
    engine.settle()
    assert engine.tiers.leaving == 0
    engine.forget()
    assert engine.kv.counts().free == 12 - 3
    engine.tiers.swap_in(swapped)
    assert engine.tiers.leaving == 0  # on its way in
    engine.settle()


@pytest.mark.scenario("T1", "T20")
def test_a_page_that_changed_meanwhile_is_computed_again() -> None:
    engine = Engine([host(16)], blocks=12)
    seq = running(engine, text(1, 18))
    swapped = engine.tiers.swap_out(seq)
    engine.settle()
    engine.forget()
    pool = engine.tiers.host.pools[0]
    page = pool.get([int(swapped._slots[2])])
    page[0, 9] ^= 1
    pool.put([int(swapped._slots[2])], page)
    grant = engine.tiers.swap_in(swapped)
    engine.texts[grant.seq] = text(1, 18)
    assert engine.tiers.drain().rewound == [grant.seq]
    assert engine.compute(grant.seq) == 18 - 2 * BLOCK
    assert engine.tiers.stats()["moved"]["failed_swaps"] == 1
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)


def test_a_swapped_request_may_end_at_any_time() -> None:
    engine = Engine([host(16)], blocks=12)
    one = engine.tiers.swap_out(running(engine, text(1, 9)))
    engine.tiers.drop_swapped(one)
    engine.settle()
    two = engine.tiers.swap_out(running(engine, text(2, 9)))
    engine.settle()
    engine.tiers.drop_swapped(two)
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)
    assert engine.kv.inspect.tickets() == []
    with pytest.raises(HandleError):
        engine.tiers.drop_swapped(two)
    engine.tiers.check_integrity()


def test_the_cheaper_way_is_taken() -> None:
    engine = Engine([host(4)], blocks=12)
    assert isinstance(engine.tiers.preempt(running(engine, text(1, 9)), DEAR), Request)
    swapped = engine.tiers.preempt(running(engine, text(2, 9)), CHEAP)
    assert isinstance(swapped, Swapped)
    # No room in host memory: it is computed again.
    assert isinstance(engine.tiers.preempt(running(engine, text(3, 9)), CHEAP), Request)
    engine.settle()
    moved = engine.tiers.stats()["moved"]
    assert (moved["swapped_out"], moved["recomputed"]) == (3, 2)


def test_the_model_of_cost() -> None:
    # An 8B model at 400 TFLOP/s, 128 KiB a token, 50 GB/s each way.
    cost = SwapCost(
        parameters=8e9, attention=32 * 32 * 128, flops=4e14, bandwidth_out=5e10, bandwidth_in=5e10
    )
    assert cost.recompute_seconds(1000) == pytest.approx(0.0407, rel=0.01)
    assert cost.swap_seconds(1000 * 131072) == pytest.approx(0.00524, rel=0.01)
    assert cost.crossover(131072) == 1
    slow = SwapCost(parameters=8e9, flops=4e14, bandwidth_out=5e10, bandwidth_in=5e10, latency=0.01)
    tokens = slow.crossover(131072)
    assert tokens is not None
    assert slow.prefers_swap(tokens, tokens * 131072)
    assert not slow.prefers_swap(tokens - 1, (tokens - 1) * 131072)
    assert DEAR.crossover(131072) is None
    assert slow.prefers_swap(1000, 131072000)
    assert not slow.prefers_swap(100, 131072000, cached=900)
    with pytest.raises(UsageError, match="flops = 0"):
        SwapCost(parameters=1, flops=0, bandwidth_out=1, bandwidth_in=1)


def test_random_swaps_beside_backups_stay_exact() -> None:
    dice = Random(11)
    engine = Engine([host(20)], blocks=20, dice=Random(5), poison=True)
    live: list[int] = []
    out: list[tuple[Swapped, list[int]]] = []
    for step in range(200):
        turn = dice.randrange(5)
        if turn == 0 and len(live) < 3:
            tokens = text(dice.randrange(6), dice.randrange(1, 22))
            with suppress(CapacityError):
                live.append(running(engine, tokens))
        elif turn == 1 and live:
            seq = live.pop(dice.randrange(len(live)))
            try:
                out.append((engine.tiers.swap_out(seq), engine.texts[seq]))
            except CapacityError:
                live.append(seq)
        elif turn == 2 and out:
            swapped, tokens = out.pop(dice.randrange(len(out)))
            try:
                grant = engine.tiers.swap_in(swapped)
            except (BusyError, CapacityError):
                out.append((swapped, tokens))
                continue
            engine.texts[grant.seq] = tokens
            engine.settle()
            assert engine.compute(grant.seq) == 0, step
            live.append(grant.seq)
        elif turn == 3 and live:
            engine.tiers.offload(live[0])
        elif live:
            engine.kv.release(live.pop(0))
        engine.tiers.poll()
        engine.tiers.check_integrity()
        for seq in live:
            engine.check(seq, len(engine.texts[seq]))
