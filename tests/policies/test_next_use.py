"""The next use that requests tell reaches every kind of policy, and the built-in one goes by it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, Request, SlotCache
from kvframe.flat import Access, TierPolicy
from kvframe.native import ACCESS, COLUMNS
from kvframe.policies import NO_NEXT_USE, BatchedEviction, Candidates
from kvframe.stats import redrive

from ..native import helpers as native

SIZE = 4
PROMPTS = {"far": [*range(8)], "near": [*range(100, 108)], "none": [*range(200, 208)]}
NEXT = {"far": 100, "near": 10, "none": None}


def cache(policy: str = "next-use", capacity: int = 6, **more: Any) -> KVCacheManager:
    cache = {"block_size": SIZE, "capacity": capacity, **more.pop("cache", {})}
    return KVCacheManager.from_toml(cache=cache, eviction={"policy": policy}, **more)


def outlook(*uses: int | None) -> Any:
    return np.array([NO_NEXT_USE if use is None else use for use in uses], np.uint32)


def serve(kv: KVCacheManager, prompt: list[int], *uses: int | None) -> None:
    grant = kv.allocate(prompt, next_use=outlook(*uses) if uses else None)
    if plan := kv.take_plan():
        kv.done(plan.ticket)
    kv.commit(grant.seq, len(prompt))
    kv.release(grant.seq)


def left(kv: KVCacheManager) -> dict[str, int]:
    return {name: kv.lookup([*prompt, 0]).tokens // SIZE for name, prompt in PROMPTS.items()}


def fill(kv: KVCacheManager) -> None:
    for name, prompt in PROMPTS.items():
        serve(kv, prompt, *([NEXT[name]] * 2 if NEXT[name] else []))


@pytest.mark.scenario("F11", "U-6")
def test_no_next_use_goes_first_then_the_farthest() -> None:
    kv = cache()
    fill(kv)
    kept = []
    for free in range(1, 7):
        kv.evict_until(free)
        kept.append(tuple(left(kv).values()))
    assert kept == [(2, 2, 1), (2, 2, 0), (1, 2, 0), (0, 2, 0), (0, 1, 0), (0, 0, 0)]


@pytest.mark.scenario("F11")
def test_a_part_of_an_outlook_marks_the_head_only() -> None:
    kv = cache(capacity=4)
    serve(kv, PROMPTS["near"], 10)
    serve(kv, PROMPTS["far"], 90, 90)
    kv.evict_until(1)
    assert left(kv) == {"far": 2, "near": 1, "none": 0}
    kv.evict_until(3)
    assert left(kv) == {"far": 0, "near": 1, "none": 0}


@pytest.mark.scenario("F11")
def test_where_none_is_known_it_is_lru() -> None:
    kv, lru = cache(), cache("lru")
    for one in (kv, lru):
        for prompt in PROMPTS.values():
            serve(one, prompt)
        serve(one, PROMPTS["far"])
        one.evict_until(3)
    assert left(kv) == left(lru) == {"far": 2, "near": 0, "none": 1}


@pytest.mark.scenario("F11")
def test_a_request_that_hits_says_anew() -> None:
    kv = cache(capacity=9)
    fill(kv)
    # The first block of each is hit; the last one is computed again, and says so of both copies.
    serve(kv, PROMPTS["none"], 5, 5)
    serve(kv, PROMPTS["near"])
    kv.evict_until(5)
    assert left(kv) == {"far": 2, "near": 0, "none": 2}


def preempted(kv: KVCacheManager, prompt: list[int]) -> None:
    grant = kv.allocate(prompt, next_use=outlook(7, 7))
    again = kv.preempt(grant.seq)
    grant = kv.allocate(again)
    kv.commit(grant.seq, len(prompt))
    kv.release(grant.seq)


def forked(kv: KVCacheManager, prompt: list[int]) -> None:
    grant = kv.allocate(prompt, next_use=outlook(7, 7))
    child = kv.fork(grant.seq)
    kv.release(grant.seq)
    kv.commit(child, len(prompt))
    kv.release(child)


def grown(kv: KVCacheManager, prompt: list[int]) -> None:
    grant = kv.allocate(prompt[:2], next_use=outlook(7, 7))
    kv.append(grant.seq, prompt[2:])
    kv.commit(grant.seq, len(prompt))
    kv.release(grant.seq)


def loaded(kv: KVCacheManager, prompt: list[int]) -> None:
    grant = kv.allocate([*prompt, 1], next_use=outlook(7, 7), num_external_tokens=8)
    assert grant.load is not None
    kv.done(grant.load)
    kv.release(grant.seq)


def in_steps(kv: KVCacheManager, prompt: list[int]) -> None:
    request = Request(prompt, next_use=outlook(7, 7), chunk=4)
    (grant,) = kv.step(allocate=[request]).allocations
    assert grant is not None
    kv.step(commit=([grant.seq], [4]), extend=([grant.seq], [8]))
    kv.step(commit=([grant.seq], [8]), release=[grant.seq])


@pytest.mark.scenario("F11")
@pytest.mark.parametrize("way", [preempted, forked, grown, loaded, in_steps])
@pytest.mark.parametrize("options", [{}, {"cache": {"index": "radix"}}], ids=["hash", "radix"])
def test_it_is_kept_whatever_way_blocks_come(way: Any, options: dict[str, Any]) -> None:
    if options and way is loaded:
        pytest.skip("nothing is loaded there by key")
    kv = cache(capacity=7, **options)
    way(kv, PROMPTS["near"])
    serve(kv, PROMPTS["far"], 100, 100)
    kv.evict_until(kv.counts().total - 2)
    assert left(kv) == {"far": 0, "near": 2, "none": 0}


@pytest.mark.scenario("F11")
def test_a_partial_tail_and_a_duplicate_have_one_too() -> None:
    kv = cache(capacity=4, cache={"partial_hits": True})
    serve(kv, PROMPTS["near"][:6], 3, 3)
    serve(kv, PROMPTS["far"], 50, 50)
    kv.evict_until(2)
    assert kv.lookup(PROMPTS["near"][:7]).tokens == 6
    # A hit on the tail says anew.
    serve(kv, PROMPTS["near"][:7], None, None)
    serve(kv, PROMPTS["far"], 50, 50)
    kv.evict_until(2)
    assert left(kv)["far"] == 2


@pytest.mark.scenario("F11")
def test_a_log_that_is_driven_again_keeps_it() -> None:
    kv = cache(cache={"event_log": True})
    fill(kv)
    twin = cache(cache={"event_log": True})
    redrive(kv.log.take(), twin)
    for one in (kv, twin):
        one.evict_until(4)
    assert left(kv) == left(twin) == {"far": 0, "near": 2, "none": 0}


class ByColumn(BatchedEviction):
    """The farthest next use first."""

    columns = ("next_use",)

    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = -candidates["next_use"].astype(np.float64)


class ByFloats(ByColumn):
    floats = True

    def score(self, candidates: Candidates, out: Any) -> None:
        assert candidates["next_use"].dtype == np.float64
        out[:] = -candidates["next_use"]


@pytest.mark.scenario("F11")
@pytest.mark.parametrize("make", [ByColumn, ByFloats])
def test_a_batched_policy_has_a_column(make: type[BatchedEviction]) -> None:
    kv = native.manager(make, 6, SIZE, way="batched")
    fill(kv)
    kv.evict_until(4)
    assert left(kv) == {"far": 0, "near": 2, "none": 0}


@pytest.mark.scenario("F11")
def test_a_native_policy_has_a_column_and_is_told_with_events() -> None:
    told: list[list[int]] = []

    def note(n: int, use: int) -> None:
        facts = np.frombuffer(ctypes.string_at(use, ACCESS.itemsize), ACCESS)[0]
        words = ctypes.string_at(int(facts["next_uses"]), 4 * n)
        told.append(np.frombuffer(words, np.uint32).tolist())

    def insert(
        state: int, memory: int, now: int, n: int, blocks: Any, parents: Any, depths: Any,
        keys: Any, use: int,
    ) -> int:  # fmt: skip
        note(n, use)
        return 0

    def hit(state: int, memory: int, now: int, n: int, blocks: Any, use: int) -> int:
        note(n, use)
        return 0

    def score(state: int, memory: int, now: int, n: int, columns: Any, out: Any) -> int:
        place, kind = COLUMNS["next_use"]
        words = ctypes.string_at(columns[place], n * np.dtype(kind).itemsize)
        for i, use in enumerate(np.frombuffer(words, kind).tolist()):
            out[i] = -float(use)
        return 0

    bodies: dict[str, Any] = {"insert": insert, "hit": hit, "score": score}
    kv = native.manager(lambda: native.of(bodies, wants=["next_use", "next_uses"]), 6, SIZE)
    fill(kv)
    assert told == [[100, 100], [10, 10], [NO_NEXT_USE] * 2]
    serve(kv, PROMPTS["far"], 40, 41)
    assert told[3:] == [[40], [41], [41]]  # a hit; the last block is computed again, beside a copy
    kv.evict_until(4)
    assert left(kv) == {"far": 0, "near": 2, "none": 0}


@pytest.mark.scenario("F11")
def test_a_tier_is_told_a_block_or_many() -> None:
    tier: TierPolicy[str] = TierPolicy.named("next-use", 4)
    for key, use in (("far", 100), ("near", 10), ("none", NO_NEXT_USE)):
        tier.insert(key, use=Access(next_use=[use]))
        tier.release([key])
    tier.insert("later")
    tier.release(["later"])
    assert tier.order() == ["none", "later", "far", "near"]
    tier.hit(["none", "near"], Access(next_use=[1, 500]))
    assert tier.order() == ["later", "near", "far", "none"]
    tier.hit(["none"])
    assert tier.order() == ["later", "none", "near", "far"]


@pytest.mark.scenario("F11")
def test_a_slot_has_one_for_the_whole_of_it() -> None:
    kv = SlotCache(3, 16, policy="next-use")
    for prompt, use in (([1, 2], 100), ([3, 4], 10), ([5, 6], None)):
        grant = kv.allocate(prompt, use=Access(next_use=[use] if use else [], session="s"))
        kv.commit(grant.seq, 2)
        kv.release(grant.seq)
    assert kv.eviction_order().tolist() == [2, 0, 1]
