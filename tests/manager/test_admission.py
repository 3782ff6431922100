"""Admission policies: what they drop is not found, and what follows it is not either."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kvframe import (
    ConfigError,
    GroupConfig,
    KVCacheManager,
    PluginError,
)
from kvframe.policies import BatchedAdmission

from .gates import UsedTwice, found, gated, gates, serve

A = list(range(12))
WAYS = ["second-use", "used-twice"]


def second_use(way: str, **options: Any) -> KVCacheManager:
    """second-use as it is built in, or as a policy in Python."""
    if way == "second-use":
        return gated(way, **options)
    return gated(way, known=gates(way, lambda _: UsedTwice()), **options)


@pytest.mark.scenario("VT64")
@pytest.mark.parametrize("way", WAYS)
def test_stored_from_the_second_use_on(way: str) -> None:
    kv = second_use(way)
    assert [serve(kv, [*A, 7]) for _ in range(4)] == [0, 0, 12, 12]
    stats = kv.stats.counters()
    assert (stats["admission_kept"], stats["admission_dropped"]) == (3, 3)
    assert stats["stored"] == 3
    assert kv.counts().free == 13


@pytest.mark.scenario("VT64")
def test_stored_from_the_third_use_on() -> None:
    kv = gated("second-use", options={"uses": 3})
    assert [serve(kv, [*A, 7]) for _ in range(4)] == [0, 0, 0, 12]


@pytest.mark.parametrize("way", WAYS)
def test_what_was_generated_counts_as_well(way: str) -> None:
    kv = second_use(way)
    serve(kv, [*A, 7])
    grant = kv.allocate([*A, 7])
    kv.commit(grant.seq, 13)
    for token in range(100, 107):
        kv.append(grant.seq, [token])
        kv.commit(grant.seq, kv.lengths(grant.seq).slots)
    kv.release(grant.seq)
    # The prompt was seen twice, the answer once.
    assert found(kv, A) == 3
    turn = [*A, 7, *range(100, 107)]
    assert found(kv, turn) == 3
    assert serve(kv, turn) == 12
    assert found(kv, turn) == 5
    kv.check_integrity()


@pytest.mark.parametrize("way", WAYS)
def test_a_preempted_request_that_comes_back_is_no_second_use(way: str) -> None:
    kv = second_use(way)
    grant = kv.allocate([*A, 7])
    kv.commit(grant.seq, 13)
    back = kv.preempt(grant.seq)
    grant = kv.allocate(back)
    assert grant.cached_tokens == 0
    kv.commit(grant.seq, 13)
    kv.release(grant.seq)
    assert found(kv, A) == 0
    assert serve(kv, [*A, 7]) == 0
    assert found(kv, A) == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_request_that_leaves_nothing_is_not_seen(way: str) -> None:
    kv = second_use(way)
    serve(kv, [*A, 7], write_cache=False)
    serve(kv, [*A, 7])
    assert found(kv, A) == 0


@pytest.mark.parametrize("way", WAYS)
def test_chunks_are_seen_as_they_come(way: str) -> None:
    kv = second_use(way)
    for _ in range(2):
        grant = kv.allocate([*A, 7], chunk=4)
        for upto in (4, 8, 13):
            kv.extend(grant.seq, upto)
            kv.commit(grant.seq, upto)
        kv.release(grant.seq)
        kv.check_integrity()
    assert found(kv, A) == 3


class Chosen(BatchedAdmission):
    """Keeps all but the depths it is told, and writes down what it was asked."""

    columns = ("depth", "key", "next", "tokens", "group", "state", "reach", "prompt", "uses")

    def __init__(self, drop: set[int]) -> None:
        self.drop = drop
        self.asked: list[list[int]] = []
        self.offers: list[Any] = []

    def admit(self, blocks: Any, tier: str, out: Any) -> None:
        assert tier == "gpu"
        self.offers.append(blocks)
        self.asked.append(blocks["depth"].tolist())
        out[:] = [depth not in self.drop for depth in blocks["depth"].tolist()]


def chosen(drop: set[int], **options: Any) -> tuple[KVCacheManager, Chosen]:
    policy = Chosen(drop)
    return gated("chosen", known=gates("chosen", lambda _: policy), **options), policy


def test_nothing_is_kept_or_asked_behind_what_was_dropped() -> None:
    kv, policy = chosen({1})
    grant = kv.allocate([*A, 7])
    kv.commit(grant.seq, 13)
    for token in range(100, 107):
        kv.append(grant.seq, [token])
        kv.commit(grant.seq, kv.lengths(grant.seq).slots)
    assert policy.asked == [[0, 1, 2]]
    kv.release(grant.seq)
    kv.check_integrity()
    assert found(kv, A) == 1
    assert kv.counts() == (15, 1, 0, 16)
    # What is found is not asked about again, what comes behind it is.
    serve(kv, [*A, 7])
    assert policy.asked == [[0, 1, 2], [1, 2]]
    stats = kv.stats.counters()
    assert (stats["admission_kept"], stats["admission_dropped"]) == (1, 4)


def test_one_question_a_step_whatever_commits() -> None:
    kv, policy = chosen(set(), blocks=64)
    prompts = [[i * 100 + j for j in range(9)] for i in range(5)]
    seqs = [kv.allocate(prompt).seq for prompt in prompts]
    kv.step(commit=(seqs, [9] * 5), release=seqs)
    assert policy.asked == [[0, 1] * 5]
    offer = policy.offers[0]
    assert offer["reach"].tolist() == offer["prompt"].tolist() == [9] * 10
    assert offer["tokens"].tolist() == [4] * 10
    assert (offer["group"].tolist(), offer["state"].tolist()) == ([0] * 10, [False] * 10)
    keys = np.concatenate([kv.blocks.hash_blocks(prompt) for prompt in prompts])
    assert (offer["key"] == keys).all()
    assert (offer["next"][0::2] == keys[1::2]).all()
    assert not offer["next"][1::2].any()
    assert (offer.occasion, offer.total) == ("computed", 64)
    assert [found(kv, prompt[:8]) for prompt in prompts] == [2] * 5
    kv.check_integrity()


def test_a_decode_step_that_fills_no_block_asks_nothing() -> None:
    kv, policy = chosen(set())
    grant = kv.allocate([1, 2, 3])
    kv.commit(grant.seq, 3)
    for token in range(4):
        kv.append(grant.seq, [token])
        kv.commit(grant.seq, 4 + token)
    assert policy.asked == [[0]]


def test_ids_that_come_with_the_step_are_in_the_keys() -> None:
    kv, policy = chosen(set())
    grant = kv.allocate([1, 2, 3])
    kv.commit(grant.seq, 3)
    kv.append_placeholders(grant.seq, 2)
    kv.step(fill=([grant.seq], [2], [4, 5]), commit=([grant.seq], [5]))
    assert (policy.offers[0]["key"] == kv.blocks.hash_blocks([1, 2, 3, 4])).all()
    kv.release(grant.seq)
    assert found(kv, [1, 2, 3, 4]) == 1
    kv.check_integrity()


def test_what_is_cut_and_comes_anew_is_asked_anew() -> None:
    kv, policy = chosen({1})
    grant = kv.allocate([*A, 7])
    kv.commit(grant.seq, 13)
    assert found(kv, A) == 1
    policy.drop = set()
    kv.step(truncate=([grant.seq], [4]))
    kv.append(grant.seq, [50, 51, 52, 53])
    kv.commit(grant.seq, 8)
    assert policy.asked == [[0, 1, 2], [1]]
    kv.release(grant.seq)
    assert found(kv, [*A[:4], 50, 51, 52, 53]) == 2
    kv.check_integrity()


def test_a_copy_of_what_is_found_needs_what_it_follows() -> None:
    """Two compute the same at once; the first is dropped, the second is kept."""
    kv = gated("second-use")
    first, second = kv.allocate([*A, 7]), kv.allocate([*A, 7])
    kv.commit(first.seq, 13)
    kv.commit(second.seq, 13)
    kv.check_integrity()
    kv.release(first.seq)
    assert found(kv, A) == 3
    kv.release(second.seq)
    kv.check_integrity()
    assert kv.counts() == (13, 3, 0, 16)


def test_a_fork_shares_the_verdict() -> None:
    kv, policy = chosen({1})
    grant = kv.allocate([*A, 7])
    kv.commit(grant.seq, 13)
    child = kv.fork(grant.seq)
    for seq in (grant.seq, child):
        kv.append(seq, [1, 2, 3])
        kv.commit(seq, 16)
        kv.release(seq)
        kv.check_integrity()
    assert policy.asked == [[0, 1, 2]]


def test_a_load_is_asked_about_too() -> None:
    kv, policy = chosen({2})
    grant = kv.allocate([*A, 7], num_external_tokens=8)
    assert grant.load is not None
    kv.loaded(grant.load, 2)
    assert policy.asked == [[0, 1]]
    kv.commit(grant.seq, 13)
    assert policy.asked == [[0, 1], [2]]
    kv.release(grant.seq)
    assert found(kv, A) == 2
    kv.check_integrity()


STATES = (GroupConfig(name="full"), GroupConfig(name="state", kind="state"))


def test_branch_point_keeps_states_where_prompts_part_or_end() -> None:
    kv = gated("branch-point", 64, groups=STATES)
    body = list(range(16))
    serve(kv, [*body, 1, 1, 1, 1, 2])
    # The state at the prompt's last block: a longer prompt goes on there, a shorter one does not.
    assert kv.lookup([*body, 1, 1, 1, 1, 2, 3]).tokens == 20
    assert kv.lookup([*body, 9]).tokens == 0
    assert serve(kv, [*body, 3, 3, 3, 3, 4]) == 0
    # Now it is known that prompts part behind the body: there a state is kept.
    assert serve(kv, [*body, 5, 5, 5, 5, 6]) == 16
    kv.check_integrity()


def test_gaps_of_states_do_not_close_a_sequence() -> None:
    class OddStates(BatchedAdmission):
        columns = ("depth", "state")

        def admit(self, blocks: Any, tier: str, out: Any) -> None:
            out[:] = ~blocks["state"] | (blocks["depth"] % 2 == 1)

    kv = gated("odd", 64, known=gates("odd", lambda _: OddStates()), groups=STATES)
    tokens = list(range(25))
    grant = kv.allocate(tokens)
    for upto in (8, 16, 25):
        kv.commit(grant.seq, upto)
    kv.release(grant.seq)
    kv.check_integrity()
    assert kv.lookup(tokens).tokens == 24
    assert kv.lookup([*tokens[:20], 9, 9]).tokens == 16


def test_filters_by_size_and_cost() -> None:
    kv = gated("size", options={"min_tokens": 10, "max_tokens": 8})
    serve(kv, [50, 51, 52, 53, 54])
    serve(kv, [*A, 7])
    assert (found(kv, [50, 51, 52, 53]), found(kv, A)) == (0, 2)
    # 13 + 13 * 13 / 26 = 19.5 tokens' worth.
    for cost, blocks in ((19, 3), (20, 0)):
        kv = gated("cost", options={"min_cost": cost, "attention_tokens": 13})
        serve(kv, [*A, 7])
        assert found(kv, A) == blocks


def test_frequency_lets_in_what_is_used_more_than_what_would_die() -> None:
    kv = gated("frequency", 4)
    for _ in range(3):
        serve(kv, [1, 2, 3, 4, 0])
    serve(kv, [5, 6, 7, 8, 0])
    assert (found(kv, [1, 2, 3, 4]), found(kv, [5, 6, 7, 8])) == (1, 1)
    # The pool is full while this one runs: a first use does not displace what was used before.
    grant = kv.allocate(list(range(100, 108)))
    kv.commit(grant.seq, 8)
    kv.release(grant.seq)
    assert found(kv, list(range(100, 108))) == 0
    assert found(kv, [1, 2, 3, 4]) == 1
    kv.check_integrity()


@pytest.mark.parametrize("policy", ["write-back", "write-through", "selective", "always"])
def test_policies_of_lower_tiers_keep_all_in_the_first(policy: str) -> None:
    kv = gated(policy)
    serve(kv, [*A, 7])
    assert found(kv, A) == 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(8))
def test_equals_a_naive_twin(way: str, seed: int) -> None:
    """Random requests over few prefixes, some at once: what can be found is what was used twice."""
    dice = random.Random(seed)
    kv = second_use(way, blocks=4096)
    uses: dict[tuple[int, ...], int] = {}
    kept: set[tuple[int, ...]] = set()
    running: list[int] = []
    for _ in range(120):
        tokens = [dice.randrange(2) for _ in range(4 * dice.randint(1, 5) + 1)]
        grant = kv.allocate(tokens)
        kv.commit(grant.seq, len(tokens))
        prefixes = [tuple(tokens[: 4 * (i + 1)]) for i in range(len(tokens) // 4)]
        open_ = True
        for prefix in prefixes:
            uses[prefix] = uses.get(prefix, 0) + 1
            open_ = open_ and (prefix in kept or uses[prefix] >= 2)
            if open_:
                kept.add(prefix)
        running.append(grant.seq)
        if dice.random() < 0.7:
            kv.release(running.pop(dice.randrange(len(running))))
        kv.check_integrity()
        for prefix in prefixes:
            whole = all(prefix[: 4 * (i + 1)] in kept for i in range(len(prefix) // 4))
            assert (found(kv, list(prefix)) == len(prefix) // 4) == whole


def test_wrong_names_and_options_are_told_in_one_line() -> None:
    def built(**admission: Any) -> None:
        KVCacheManager.from_toml(admission=admission)

    with pytest.raises(
        PluginError, match=r"no admission policy secnd-use; did you mean second-use"
    ):
        built(policy="secnd-use")
    with pytest.raises(ConfigError, match=r"did you mean admission.options.uses"):
        built(policy="second-use", options={"use": 3})
    with pytest.raises(ConfigError, match=r"admission.options.min_tokens = -1: must be"):
        built(policy="size", options={"min_tokens": -1})
    with pytest.raises(ConfigError, match=r"admission.polcy = .*did you mean admission.policy"):
        built(polcy="second-use")


def test_options_reach_the_core_from_file_and_environment(tmp_path: Any) -> None:
    from kvframe import Resolved

    file = tmp_path / "kvframe.toml"
    file.write_text('[admission]\npolicy = "second-use"\n[admission.options]\nuses = 4\n')
    env = {"KVFRAME_ADMISSION__OPTIONS__REMEMBER": "9"}
    kv = KVCacheManager(Resolved.load(file, env=env))
    options = kv.inspect.options()
    assert options["admission"] == "second-use"
    assert dict(options["admission_options"]) == {"uses": 4, "remember": 9}
