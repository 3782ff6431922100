"""Blocks that wait for a step in flight are room on its way."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from kvframe import CapacityError, KVCacheManager, Pressure, UsageError
from kvframe.pressure import PreemptionRule

from .helpers import manager

RULES: tuple[PreemptionRule, ...] = get_args(PreemptionRule)


def four(kv: KVCacheManager) -> list[int]:
    seqs = [kv.allocate([token] * 16).seq for token in range(4)]
    kv.step(commit=(seqs, [16] * 4))
    return seqs


@pytest.mark.scenario("F9")
@pytest.mark.parametrize("rule", RULES)
def test_one_is_preempted_where_one_is_enough(rule: PreemptionRule) -> None:
    """Append is refused, one is preempted behind step 7, append is tried again."""
    kv = manager(16)
    running, ended = four(kv), 0
    grows = running.pop(0)
    for _ in range(4):
        try:
            kv.append(grows, [9])
            break
        except CapacityError:
            for victim in kv.pressure.preemption_order(running, rule, usage=15 / 16)[:1]:
                kv.preempt(victim.seq, fence=7)
                running.remove(victim.seq)
                ended += 1
    assert ended == 1
    with pytest.raises(CapacityError, match=r"only 0 .* \(4 wait for a fence to pass\)"):
        kv.append(grows, [9])
    kv.step(passed=7, append=[grows], tokens=[9])
    assert kv.lengths(grows).slots == 17


@pytest.mark.scenario("F9")
def test_use_and_pressure_fall_with_the_call_and_room_comes_with_the_step() -> None:
    kv = manager(16)
    told: list[tuple[Pressure, Pressure]] = []
    seqs = four(kv)
    kv.pressure.add_callback(lambda *change: told.append(change))
    assert (kv.pressure.usage(), kv.pressure.level()) == (1.0, Pressure.CRITICAL)
    back = kv.pressure.preempt_to(0.5, seqs, "last-admitted", fence=7)
    assert len(back) == 2
    assert (kv.pressure.usage(), kv.pressure.level(), kv.counts().available) == (
        0.5,
        Pressure.NORMAL,
        0,
    )
    assert told[-1][1] == Pressure.NORMAL
    assert kv.pressure.preempt_to(0.5, seqs[:2], fence=7) == []
    assert kv.inspect.snapshot().usage == 0.5
    kv.step(passed=6)
    assert kv.counts().available == 0
    kv.step(passed=7)
    assert (kv.pressure.usage(), kv.counts().available) == (0.5, 8)
    kv.check_integrity()


@pytest.mark.scenario("F9")
def test_pages_that_a_running_step_reads_are_not_given_out_by_a_bulk_verb() -> None:
    kv = manager(16)
    seqs = four(kv)
    reads = set(kv.block_table(seqs[3]).tolist())
    kv.pressure.preempt_to(0.75, seqs, "last-admitted", fence=7)
    with pytest.raises(CapacityError):
        kv.blocks.take(out=np.zeros(1, np.int32))
    assert {kv.blocks.owners(block).waiting for block in reads} == {1}
    with pytest.raises(UsageError, match="fence"):
        kv.pressure.preempt_to(0.5, seqs[:3], fence=-1)


@pytest.mark.scenario("F9")
def test_what_only_a_fence_shares_is_freed_by_its_other_owner() -> None:
    kv = manager(16)
    one = kv.allocate([1] * 16).seq
    kv.commit(one, 16)
    two = kv.fork(one)
    assert kv.pressure.preemption_order([one, two]) == []
    kv.release(one, fence=3)
    for rule in RULES:
        assert [v.frees for v in kv.pressure.preemption_order([two], rule)] == [4]
        assert [v.frees for v in kv.pressure.preemption_order([two], rule, usage=0.0)] == [4]
    kv.release(two)
    # What is found while it waits has an owner again.
    assert (kv.pressure.usage(), kv.counts().available) == (0.0, 12)
    found = kv.allocate([1] * 13)
    assert (found.cached_tokens, kv.pressure.usage()) == (12, 4 / 16)
    kv.step(passed=3)
    kv.check_integrity()
    assert kv.counts().available == 12


@pytest.mark.scenario("F9")
def test_errors_name_what_is_on_its_way() -> None:
    kv = manager(8)
    seq = kv.allocate([1] * 16).seq
    kv.release(seq, fence=1)
    for call, told in (
        (lambda: kv.resize(2), CapacityError),
        (kv.sleep, UsageError),
        (lambda: kv.allocate([2] * 20), CapacityError),
    ):
        with pytest.raises(told, match="wait for a fence"):
            call()
    kv.step(passed=1)
    kv.sleep()


@pytest.mark.scenario("F12")
def test_most_freed_is_one_order_with_and_without_a_use() -> None:
    kv = manager(16)
    prompts = {"z": [9] * 8, "x": [1] * 8 + [4] * 4, "y": [1] * 8 + [3] * 12}
    seqs = {}
    for name, tokens in prompts.items():
        seqs[name] = kv.allocate(tokens).seq
        kv.commit(seqs[name], len(tokens))
    order = kv.pressure.preemption_order([*seqs.values()], "most-freed")
    names = {seq: name for name, seq in seqs.items()}
    assert [(names[v.seq], v.frees) for v in order] == [("y", 3), ("x", 3), ("z", 2)]
    assert kv.pressure.preemption_order([*seqs.values()], "most-freed", usage=0.0) == order
    for victim in order:
        before = kv.counts().available
        kv.preempt(victim.seq)
        assert kv.counts().available - before == victim.frees
