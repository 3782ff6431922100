"""Which sequences give way, and down to what use."""

from __future__ import annotations

from typing import get_args

import pytest

from kvframe.pressure import PreemptionRule

from .helpers import manager, start

RULES: tuple[PreemptionRule, ...] = get_args(PreemptionRule)


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
