"""opt and opt-forced are the optimum: every victim tried, on small instances; under pins, too."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import numpy.typing as npt

from kvframe import KVCacheManager, Request, _core
from kvframe.config import CacheConfig, Config, EvictionConfig
from tests.amounts import amount

from .exact import Chain, most_hits, most_hits_pinned

NEVER = 2**32 - 1


def tree(dice: np.random.Generator, nodes: int) -> list[int]:
    """Parents, -1 for a root."""
    return [int(dice.integers(-1, node)) if node else -1 for node in range(nodes)]


def chain_to(node: int, parents: list[int]) -> Chain:
    found = []
    while node >= 0:
        found.append(node)
        node = parents[node]
    return tuple(reversed(found))


def drawn(dice: np.random.Generator) -> tuple[list[Chain], list[int]]:
    parents = tree(dice, int(dice.integers(4, 8)))
    ends = dice.integers(len(parents), size=int(dice.integers(4, 9)))
    return [chain_to(int(end), parents) for end in ends], parents


def replayed(
    chains: list[Chain], policy: str, capacity: int, **options: int
) -> npt.NDArray[np.uint32]:
    """Blocks that each request hits."""
    rows = [
        {"timestamp": at, "input_length": len(chain), "output_length": 1, "hash_ids": list(chain),
         "block_size": 1}
        for at, chain in enumerate(chains)
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, rows)).encode()
    trace = _core.Trace.parse(text, "t", None)
    served = _core.replay(trace, policy, capacity, "trace", options or None, per_request=True)
    hits: npt.NDArray[np.uint32] = served["request_hit_tokens"]
    return hits


def test_one_request_at_a_time() -> None:
    dice = np.random.default_rng(11)
    for _ in range(amount(100, 1_000)):
        chains, parents = drawn(dice)
        capacity = int(dice.integers(2, 5))
        for policy, bypass in (("opt", True), ("opt-forced", False)):
            best = most_hits(chains, parents, capacity, bypass=bypass)
            assert replayed(chains, policy, capacity).sum() == best, (chains, capacity, policy)


def test_a_block_that_ends_with_a_prompt_is_kept_for_no_use_there() -> None:
    """In engine mode such a block is computed again. Where prompts end so, opt is no optimum: it
    never hits more, and seldom less.
    """
    dice = np.random.default_rng(11)
    hits, most = {"opt": 0, "opt-forced": 0}, {"opt": 0, "opt-forced": 0}
    for _ in range(amount(100, 600)):
        chains, parents = drawn(dice)
        capacity = int(dice.integers(2, 5))
        full = (dice.random(len(chains)) < 0.5).tolist()
        rows = [
            {"timestamp": at, "input_length": 2 * len(chain) + (not is_full), "output_length": 1,
             "hash_ids": list(chain), "block_size": 2}
            for at, (chain, is_full) in enumerate(zip(chains, full, strict=True))
        ]  # fmt: skip
        trace = _core.Trace.parse("\n".join(map(json.dumps, rows)).encode(), "t", None)
        limits = [len(chain) - is_full for chain, is_full in zip(chains, full, strict=True)]
        for policy, bypass in (("opt", True), ("opt-forced", False)):
            found = _core.replay(trace, policy, capacity, "engine")["hit_tokens"] // 2
            best = most_hits(chains, parents, capacity, bypass=bypass, limits=limits)
            assert found <= best, (chains, limits, capacity, policy)
            hits[policy], most[policy] = hits[policy] + found, most[policy] + best
    assert all(hits[policy] > 0.985 * most[policy] for policy in hits), (hits, most)


def work(blocks: int) -> int:
    """What the first so many blocks of a prompt cost, if the n-th costs n."""
    return blocks * (blocks + 1) // 2


def test_compute_saved() -> None:
    """belady-compute is no optimum: it never saves more, seldom less, and where all blocks cost the
    same it is one.
    """
    dice = np.random.default_rng(13)
    saved, best, optimal, tried = 0, 0, 0, amount(100, 1_000)
    for _ in range(tried):
        chains, parents = drawn(dice)
        capacity = int(dice.integers(2, 5))
        most = most_hits(chains, parents, capacity, bypass=False, worth=work)
        found = replayed(chains, "belady-compute", capacity, attention_blocks=1)
        mine = sum(map(work, found.tolist()))
        assert mine <= most, (chains, capacity)
        saved, best, optimal = saved + mine, best + most, optimal + (mine == most)
        even = replayed(chains, "belady-compute", capacity, attention_blocks=2**32 - 1)
        assert even.sum() == most_hits(chains, parents, capacity, bypass=False)
    assert optimal > 0.9 * tried, optimal
    assert saved > 0.97 * best, saved / best


def schedule_of(
    dice: np.random.Generator, chains: list[Chain], capacity: int
) -> list[tuple[bool, int]]:
    """Starts and ends, so that what runs fits; a request that never could is left out."""
    found: list[tuple[bool, int]] = []
    running: list[int] = []

    def fits(which: int) -> bool:
        some = [*running, which]
        return len({node for one in some for node in chains[one]}) + len(some) <= capacity

    for which in range(len(chains)):
        while running and (not fits(which) or dice.random() < 0.3):
            ended = running.pop(int(dice.integers(len(running))))
            found.append((False, ended))
        if fits(which):
            running.append(which)
            found.append((True, which))
    return found


@cache
def manager(capacity: int) -> KVCacheManager:
    """One for all instances of a capacity: it is empty between them."""
    blocks = CacheConfig(capacity=capacity, block_size=1)
    return KVCacheManager(Config(cache=blocks, eviction=EvictionConfig(policy="next-use")))


def managed(schedule: list[tuple[bool, int]], chains: list[Chain], capacity: int) -> int:
    """Blocks that a manager hits that is told all next uses."""
    kv = manager(capacity)
    starts = [which for begins, which in schedule if begins]
    hits = 0
    running: dict[int, int] = {}
    for begins, which in schedule:
        if not begins:
            kv.release(running.pop(which))
            continue
        at, chain = starts.index(which), chains[which]
        later = [
            next((n for n in range(at + 1, len(starts)) if node in chains[starts[n]]), NEVER)
            for node in chain
        ]
        prompt = np.array([*chain, 1_000 + which], np.uint32)
        got = kv.allocate(Request(prompt, next_use=np.array([*later, NEVER], np.uint32)))
        kv.commit(got.seq, len(chain))
        hits += got.cached_tokens
        running[which] = got.seq
    for seq in running.values():
        kv.release(seq)
    kv.reset_prefix_cache()
    return hits


def test_under_pins() -> None:
    """The recorded schedule is kept; blocks of running requests cannot be evicted."""
    dice = np.random.default_rng(12)
    for _ in range(amount(100, 1_000)):
        chains, parents = drawn(dice)
        capacity = int(dice.integers(4, 8))
        schedule = schedule_of(dice, chains, capacity)
        best = most_hits_pinned(schedule, chains, parents, capacity)
        assert managed(schedule, chains, capacity) == best, (schedule, chains, capacity)
