"""Blocks that wait for a step in flight are room on its way."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import CapacityError, GroupConfig, KVCacheManager, UsageError

from .helpers import manager


def four(kv: KVCacheManager) -> list[int]:
    seqs = [kv.allocate([token] * 16).seq for token in range(4)]
    kv.step(commit=(seqs, [16] * 4))
    return seqs


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


@pytest.mark.scenario("F9")
@pytest.mark.parametrize("fence", [None, 1])
def test_what_was_behind_a_fence_goes_the_last_group_first(fence: int | None) -> None:
    kv = manager(8, groups=[GroupConfig(name="a"), GroupConfig(name="b")])
    seq = kv.allocate([1] * 8).seq
    kv.commit(seq, 8)
    first, last = (kv.block_table(seq, group)[::-1].tolist() for group in range(2))
    kv.release(seq, fence=fence)
    kv.step(passed=1)
    order = kv.inspect.eviction_order().tolist()
    assert order == (first + last if fence is None else last + first)


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
