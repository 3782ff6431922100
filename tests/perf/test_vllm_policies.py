"""What `perf.vllm_policies` makes of hits: rivals, what is real, what returned."""

from __future__ import annotations

import numpy as np
from kvframe_vllm.replay.workload import Families
from perf.vllm_policies import ADMITTED, EVERYTHING, Policy, judged, policies, rivals, told, where
from perf.vllm_returns import ANSWER, BLOCK, Kind, returns

OURS, LRU, MQ, ARC = (Policy("pool", name) for name in ("foresight", "lru", "mq", "arc"))


def test_every_online_policy_is_tried_and_admission_under_the_manager_alone() -> None:
    every = policies()
    assert len(set(every)) == len(every)
    assert {OURS, LRU, MQ, ARC} <= set(every)
    assert Policy("pool", "opt") not in every
    beside = [policy for policy in every if policy.admission]
    assert {policy.face for policy in beside} == {"manager"}
    assert {policy.eviction for policy in beside} == set(ADMITTED)
    assert not {policy.admission for policy in beside} & set(EVERYTHING)
    assert Policy("manager", "lru", "second-use") in beside


def test_rivals_are_the_best_of_a_size_and_those_by_name() -> None:
    names = ["foresight", "lru", "mq", "arc", "lfu", "slru", "2q"]
    hits = {
        (Policy("pool", name), 300): np.full((4, 2), value)
        for name, value in zip(names, [3, 1, 2, 9, 8, 7, 6], strict=True)
    }
    hits[Policy("pool", "wlfu"), 300] = hits[Policy("pool", "arc"), 300]
    chosen = [policy.eviction for policy in rivals(hits)]
    assert sorted(chosen) == ["arc", "foresight", "lfu", "lru", "mq", "slru"]


def test_a_lead_in_every_draw_is_real_and_a_mixed_one_is_not() -> None:
    tokens = [1_000] * 8
    ours = np.full((8, 2), 100)
    mixed = ours + np.array([[30], [-30]] * 4)
    found = {(OURS, 300): ours, (LRU, 300): ours - 20, (MQ, 300): mixed + 2}
    rows = {row["policy"]: row for row in judged(found, tokens)}
    assert set(rows) == {"lru", "mq"}
    np.testing.assert_allclose(rows["lru"]["more"], [0.04, 0.04, 0.04])
    more, low, high = rows["mq"]["more"]
    assert low < 0 < high
    np.testing.assert_allclose(more, -0.004)
    assert "| pool |    300 | 16.00 |     20.00 | `mq` 20.40 | -0.40 [" in told([*rows.values()])


def test_a_return_is_told_by_its_uses_and_what_came_between() -> None:
    head, other = [1] * Families.prefix, [2] * Families.prefix
    scan = [[seed] * 1_000 for seed in (3, 4)]
    prompts = [head + [7] * 16, other + [7] * 16, scan[0], scan[1], head + [8] * 16, [*head, 9]]
    blocks = -(-(512 + 16 + ANSWER) // BLOCK) + 2 * -(-(1_000 + ANSWER) // BLOCK)
    kinds = [*returns(prompts, blocks)]
    assert kinds == [None, None, None, None, Kind(0, 1), Kind(1, 0)]
    assert next(iter(returns(prompts[:1], 1))) is None
    # The other prefix counts once, however often it comes.
    again = [prompts[0], *prompts[1:2] * 3, prompts[4]]
    *_, last = returns(again, 100)
    assert last == Kind(0, 0)


def test_what_a_rival_hits_more_is_told_by_the_kind_of_return() -> None:
    prompts = Families(requests=20, seed=101).prompts()
    kinds = [*returns(prompts, 300)]
    ours = np.zeros((1, 20), np.int64)
    theirs = np.array([[0 if kind is None else 512 for kind in kinds]])
    found = {(OURS, 300): ours, (MQ, 300): theirs}
    total = sum(map(len, prompts))
    (lost,) = where(found, [*judged(found, [total])], [101]).values()
    assert lost["policy"] == "mq"
    share = 100 * theirs.sum() / total
    np.testing.assert_allclose(sum(lost["points"].values()), share, atol=0.1)
    assert lost["parts"][0] < share < max(lost["parts"])
