"""Which sequences give way, and down to what use."""

from __future__ import annotations

from typing import get_args

import pytest

from kvframe import HandleError
from kvframe.pressure import PreemptionRule

from .helpers import manager, prompt, start

RULES: tuple[PreemptionRule, ...] = get_args(PreemptionRule)


@pytest.mark.scenario("CB-9", "CB-10", "CB-B8")
def test_lru_is_the_first_and_longest_the_longest(index: str) -> None:
    kv = manager(index, 16)
    seqs = [start(kv, *blocks) for blocks in ([1], [2, 3, 4, 5], [6, 7])]
    assert kv.pressure.preemption_order(seqs, "lru")[0].seq == seqs[0]
    assert kv.pressure.preemption_order(seqs, "longest-first")[0].seq == seqs[1]
    kv.pressure.touch(seqs[:1])
    assert kv.pressure.preemption_order(seqs, "lru")[0].seq == seqs[1]
    assert kv.pressure.preemption_order(seqs, "lfu-aged")[-1].seq == seqs[0]
    with pytest.raises(HandleError):
        kv.pressure.touch([seqs[1], 77])
    assert kv.pressure.preemption_order(seqs, "lru")[0].seq == seqs[1]


@pytest.mark.scenario("CB-11", "CB-B7")
@pytest.mark.parametrize("rule", RULES)
def test_three_of_eight_bring_use_down_to_half(index: str, rule: PreemptionRule) -> None:
    kv = manager(index, 10)
    seqs = [start(kv, block) for block in range(1, 9)]
    assert kv.pressure.usage() == 0.8
    back = kv.pressure.preempt_to(0.5, seqs, rule)
    assert (len(back), kv.pressure.usage()) == (3, 0.5)
    assert kv.allocate(back[0]).prompt_tokens == 4
    kv.check_integrity()


@pytest.mark.scenario("CB-B6", "CB-B13", "I8")
def test_nobody_ends_who_frees_nothing(index: str) -> None:
    kv = manager(index, 16)
    shared = start(kv, 1, 2, 3)
    sharers = [shared, kv.fork(shared), kv.fork(shared)]
    alone = start(kv, 5)
    order = kv.pressure.preemption_order([*sharers, alone], "most-freed", usage=0.0)
    assert [(victim.seq, victim.frees) for victim in order] == [(alone, 1)]
    kv.release(sharers[2])
    kv.append(shared, prompt(6, 7))
    told = kv.pressure.preemption_order([shared, sharers[1], alone], "most-freed", usage=0.0)
    assert [(victim.seq, victim.frees) for victim in told] == [
        (shared, 2),
        (sharers[1], 3),
        (alone, 1),
    ]
