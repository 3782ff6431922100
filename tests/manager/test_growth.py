"""Work that must not grow with what a call does not name: outcomes, and counts of what is touched.

What it costs is counted by ``perf.instructions`` and shown by ``perf.growth``.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import KVCacheManager, Reason, Request, UsageError
from kvframe.pressure import PreemptionRule

from .gates import UsedTwice, gated, gates

BLOCK = 4


def manager(blocks: int, policy: str = "lru", index: str = "hash") -> KVCacheManager:
    cache = {"capacity": blocks, "block_size": BLOCK, "index": index}
    return KVCacheManager.from_toml(None, cache=cache, eviction={"policy": policy})


def ids(*parts: tuple[int, int]) -> npt.NDArray[np.uint32]:
    """Parts of (blocks, text), one after the other, and one token more."""
    return np.concatenate([[text] * (blocks * BLOCK) for blocks, text in parts] + [[0]]).astype(
        np.uint32
    )


@pytest.mark.scenario("F1")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_a_join_finds_the_longest_computation_among_many(index: str) -> None:
    kv = manager(4_096, index=index)
    for other in range(200):
        kv.allocate(Request(ids((3, 1), (2, 100 + other)), read_cache=False))
    wanted = ids((3, 1), (2, 150), (4, 7))
    longest = kv.allocate(Request(ids((3, 1), (2, 150), (2, 7), (5, 8)), read_cache=False)).seq
    grant = kv.allocate(Request(wanted, join=True))
    assert (grant.cached_tokens, grant.joined_tokens) == (0, 7 * BLOCK)
    kv.commit(longest, 4 * BLOCK)
    assert kv.lengths(grant.seq).committed == 4 * BLOCK
    again = kv.allocate(Request(wanted, join=True))
    assert (again.cached_tokens, again.joined_tokens) == (4 * BLOCK, 3 * BLOCK)
    kv.release(longest)
    assert set(kv.log.take_changes().rewound) == {grant.seq, again.seq}
    # What it computes itself now can be joined in its turn.
    kv.extend(grant.seq, len(wanted))
    third = kv.allocate(Request(wanted, join=True))
    assert (third.cached_tokens, third.joined_tokens) == (4 * BLOCK, 5 * BLOCK)
    kv.check_integrity()


@pytest.mark.scenario("F1")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_a_join_finds_the_same_before_and_after_what_runs_is_noted(index: str) -> None:
    """The first joins search; once they are many, what every sequence computes is noted."""
    kv = manager(4_096, index=index)
    for other in range(40):
        kv.allocate(Request(ids((3, 1), (2, 100 + other)), read_cache=False))
    for turn in range(80):
        grant = kv.allocate(Request(ids((3, 1), (2, 100 + turn % 40)), join=True))
        assert grant.joined_tokens == 5 * BLOCK
        kv.release(grant.seq)
    kv.check_integrity()


@pytest.mark.scenario("F1")
def test_the_samples_of_many_prompts_join_in_one_step() -> None:
    kv = manager(4_096)
    prompts = [ids((8, prompt)) for prompt in range(1, 33)]
    requests = [Request(prompt, join=True) for prompt in prompts for _ in range(16)]
    grants = [grant for grant in kv.step(allocate=requests).allocations if grant is not None]
    assert [grant.joined_tokens for grant in grants] == ([0] + [8 * BLOCK] * 15) * 32
    first = np.array([grant.seq for grant in grants[::16]], np.uint64)
    kv.step(commit=(first, np.full(32, 8 * BLOCK + 1)))
    assert all(kv.lengths(grant.seq).committed >= 8 * BLOCK for grant in grants)
    kv.step(release=[grant.seq for grant in grants])
    kv.check_integrity()
    assert kv.counts().referenced == 0


def crowd(kv: KVCacheManager, dice: Random) -> list[int]:
    """Sequences that share prefixes, forks, loads and computations."""
    seqs = []
    for _ in range(40):
        text = ids(
            (dice.randint(1, 3), dice.randint(1, 4)), (dice.randint(0, 3), dice.randint(5, 9))
        )
        options: dict[str, Any] = dice.choice(
            [{}, {}, {"join": True}, {"external_until": BLOCK}, {"chunk": BLOCK}]
        )
        grant = kv.allocate(Request(text, **options))
        seqs.append(grant.seq)
        if dice.random() < 0.5 and grant.load is None and not grant.joined_tokens:
            kv.commit(grant.seq, grant.granted_tokens)
        if dice.random() < 0.2:
            seqs.append(kv.fork(dice.choice(seqs)))
        if dice.random() < 0.2:
            kv.pressure.touch([dice.choice(seqs)])
    return seqs


@pytest.mark.scenario("F2")
@pytest.mark.parametrize("rule", get_args(PreemptionRule))
def test_each_victim_frees_what_its_order_says(rule: PreemptionRule) -> None:
    for seed in range(8):
        kv = manager(1_024)
        seqs = crowd(kv, Random(seed))
        victims = kv.pressure.preemption_order(seqs, rule, usage=0.0)
        for victim in victims:
            before = kv.counts()
            kv.preempt(victim.seq)
            after = kv.counts()
            freed = (after.free + after.cached) - (before.free + before.cached)
            assert freed == victim.frees, (seed, rule)
        kv.check_integrity()


@pytest.mark.scenario("F2")
def test_most_freed_takes_whoever_frees_most_each_time() -> None:
    for seed in range(8):
        kv, other = manager(1_024), manager(1_024)
        seqs, rest = crowd(kv, Random(seed)), crowd(other, Random(seed))
        assert seqs == rest
        for victim in kv.pressure.preemption_order(seqs, "most-freed", usage=0.0):
            frees = {v.seq: v.frees for v in other.pressure.preemption_order(rest, "last-admitted")}
            assert victim.frees == max(frees.values()) == frees[victim.seq], seed
            other.preempt(victim.seq)
            rest.remove(victim.seq)


class Looked(list[int]):
    """A prompt that counts how often its tokens are looked at."""

    looks = 0

    def __array__(self, *_: object, **__: object) -> Any:
        Looked.looks += 1
        return np.array(list(self), np.uint32)


@pytest.mark.scenario("F3")
def test_a_step_looks_at_no_request_behind_the_first_refusal() -> None:
    kv = manager(16)
    waiting: list[Request | list[int]] = [Request(ids((1, 0)))]
    waiting += [Looked(ids((1, i))) for i in range(1, 3)] + [Looked(ids((15, 9)))]
    waiting += [Looked(ids((1, 50 + i))) for i in range(1_000)]
    Looked.looks = 0
    stepped = kv.step(allocate=waiting)
    assert Looked.looks == 3
    assert [grant is not None for grant in stepped.allocations] == [True] * 3 + [False] * 1_001
    assert list(stepped.reasons) == [0] * 3 + [Reason.NO_CAPACITY] + [Reason.NOT_TRIED] * 1_000
    assert [place for _, place, _ in stepped.refused] == [3]
    # Nor is one looked at where the budget is spent.
    Looked.looks = 0
    waiting[4] = Request(ids((1, 50)))
    assert kv.step(allocate=waiting[4:], token_budget=0).allocations == [None] * 1_000
    assert Looked.looks == 0


@pytest.mark.scenario("F3")
def test_a_prompt_is_read_when_its_turn_comes() -> None:
    kv = manager(16)
    large, wrong, good = ids((20, 1)), [3, -1], [1, 2, 3]
    stepped = kv.step(allocate=[large, wrong, good])
    assert list(stepped.reasons) == [Reason.NEVER_FITS, Reason.NOT_TRIED, Reason.NOT_TRIED]
    stepped = kv.step(allocate=[good, wrong, good], skip_refused=True)
    assert list(stepped.reasons) == [0, Reason.WRONG, 0]
    (refused,) = stepped.refused
    assert refused[:2] == ("allocate", 1)
    assert isinstance(refused[2], UsageError)
    # What is no prompt at all refuses the step, wherever it stands.
    for nothing in (None, 7, "text", {1: 2}, np.zeros((2, 2), np.uint32)):
        before = kv.counts()
        with pytest.raises(UsageError, match=r"allocate\[1\] = "):
            kv.step(allocate=[large, nothing])  # type: ignore[list-item]
        assert kv.counts() == before


Keys = Callable[[int], tuple[int, int]]


def mixed(salt: int) -> Keys:
    """Keys as hashes are."""
    return lambda i: (hash((i, salt)) & (2**64 - 1), (i + salt) * 0x9E3779B97F4A7C15 % 2**64)


MIXED: dict[str, Keys] = {f"mixed {salt}": mixed(salt) for salt in range(1, 7)}
KEYS: dict[str, Keys] = {
    "low word": lambda i: (i, 1),
    "high word": lambda i: (1, i),
    "high bits": lambda i: (i << 44, 0),
    "both": lambda i: (i, i),
}


def hits(policy: str, key_of: Keys) -> int:
    """Hits of a loop with a hot set and a scan, where each prompt is one block of that key."""
    kv, dice, found = manager(256, policy), Random(1), 0
    for turn in range(1_500):
        at = dice.randrange(128) if turn % 3 == 0 else dice.randrange(100, 1_000)
        keys = np.array([key_of(at)], np.uint64)
        grant = kv.allocate(Request(None, keys=keys, num_tokens=BLOCK + 1))
        found += grant.cached_tokens // BLOCK
        kv.commit(grant.seq, BLOCK + 1)
        kv.release(grant.seq)
    return found


@pytest.mark.scenario("F5")
@pytest.mark.parametrize("policy", ["mq", "s3-fifo", "arc", "foresight", "w-tinylfu"])
def test_keys_that_count_up_are_told_apart_as_well_as_mixed_ones(policy: str) -> None:
    """A policy that samples by keys hits more with some than with others, however mixed they are:
    those that count up must lie where mixed ones do, but for 3 %.
    """
    found = [hits(policy, key_of) for key_of in MIXED.values()]
    counted = {kind: hits(policy, key_of) for kind, key_of in KEYS.items()}
    near = 0.03 * sum(found) / len(found)
    assert min(counted.values()) >= min(found) - near, (counted, found)
    assert max(counted.values()) <= max(found) + near, (counted, found)


@pytest.mark.scenario("F3")
def test_an_admission_policy_that_holds_nothing_leaves_the_queue_alone() -> None:
    kv = gated("twice", 16, known=gates("twice", lambda _: UsedTwice()))
    waiting: list[Request | list[int]] = [Request(ids((1, 0)))]
    waiting += [Looked(ids((1, i))) for i in range(1, 3)] + [Looked(ids((15, 9)))]
    waiting += [Looked(ids((1, 50 + i))) for i in range(1_000)]
    Looked.looks = 0
    stepped = kv.step(allocate=waiting)
    assert Looked.looks == 3
    assert list(stepped.reasons) == [0] * 3 + [Reason.NO_CAPACITY] + [Reason.NOT_TRIED] * 1_000
