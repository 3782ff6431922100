"""The radix index: matches of a long prompt, a stream of requests, victims, memory.

Blocks of 16 tokens; everything goes through `KVCacheManager`, as an engine would call it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvframe import CacheConfig, Config, EvictionConfig, KVCacheManager
from perf import floors
from perf.measure import MICRO, per_call, quiet
from perf.memory import resident
from perf.sides.workload import LIVE, POOL, VOCABULARY, long_prompt, prompts
from perf.work import Round, Work

Prompt = npt.NDArray[np.uint32]

SIZE = 16
LONG = 32_768
LEAF = 1_600
ROOT = Path(__file__).parent.parent


def manager(blocks: int, policy: str = "lru") -> KVCacheManager:
    """A manager over the radix index."""
    cache = CacheConfig(capacity=blocks, index="radix")
    return KVCacheManager(Config(cache=cache, eviction=EvictionConfig(policy=policy)))


def cache(kv: KVCacheManager, prompt: np.ndarray) -> None:
    """Leaves the whole blocks of a prompt cached."""
    seq = kv.allocate(prompt).seq
    kv.commit(seq, len(prompt))
    kv.release(seq)


def matching(nodes: int) -> Callable[[bool], Round]:
    """Rounds of `KVCacheManager.lookup` of a cached prompt held in that many nodes."""

    def make(quick: bool) -> Round:
        prompt = long_prompt(LONG // 16 if quick else LONG)
        kv = manager(2 * LONG // SIZE)
        cache(kv, prompt)
        apart = len(prompt) // min(nodes, len(prompt) // SIZE)
        for at in range(apart, len(prompt), apart):
            # A sibling that parts from the prompt here splits its node.
            cache(kv, np.append(prompt[:at], np.full(SIZE, VOCABULARY, np.uint32)))
        asked = np.append(prompt, np.uint32(0))
        if kv.lookup(asked).tokens != len(prompt):
            raise AssertionError("not all of the prompt is cached")
        return lambda: per_call(lambda: kv.lookup(asked), 20 if quick else 200)

    return make


def stream(quick: bool) -> Round:
    """Rounds of a stream of requests: match, own, evict, store; µs a request."""
    asked = prompts(60 if quick else 2_000)

    def once() -> float:
        with quiet():
            start = time.perf_counter()
            served(asked, POOL)
            took = time.perf_counter() - start
        return took / len(asked) * MICRO

    return once


def served(asked: list[Prompt], blocks: int) -> list[int]:
    """The tokens found of each request of a stream in a pool of that many blocks."""
    kv = manager(blocks)
    live: deque[int] = deque()
    hits = []
    for prompt in asked:
        if len(live) == LIVE:
            kv.release(live.popleft())
        grant = kv.allocate(prompt)
        kv.commit(grant.seq, grant.prompt_tokens)
        live.append(grant.seq)
        hits.append(grant.cached_tokens)
    return hits


def evicting(leaves: int, policy: str = "lru", twice: bool = False) -> Callable[[bool], Round]:
    """Rounds of evictions of one block among that many leaves; µs a victim.

    With ``twice``, every second leaf is used again, as policies tell apart.
    """

    def make(quick: bool) -> Round:
        count = leaves // 16 if quick else leaves

        def once() -> float:
            # The head, and a block for the token behind each leaf, without which none is found.
            kv = manager(count + 2, policy)
            head = np.zeros(SIZE, np.uint32)
            again = range(0, count, 2) if twice else ()
            for leaf in (*range(count), *again):
                cache(kv, np.append(head, np.full(SIZE + 1, leaf + 1, np.uint32)))
            if kv.counts().free != 1:
                raise AssertionError("each leaf is cached once")
            victims = min(count // 2, 512)
            free = iter(range(2, victims + 2))
            took = per_call(lambda: kv.evict_until(next(free)), victims)
            if kv.stats.counters()["evictions"] != victims:
                raise AssertionError("each call evicts one")
            return took

        return once

    return make


def filled(leaves: int) -> float:
    """Bytes a token that the index adds to a pool of leaves of 1,600 tokens, all cached."""
    sizes = []
    for caching in (False, True):
        command = [sys.executable, "-m", "perf.radix", str(leaves), str(int(caching))]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        sizes.append(float(run.stdout))
    return (sizes[1] - sizes[0]) / (leaves * LEAF)


def grown(leaves: int, caching: bool) -> int:
    """Growth of this process by such a pool, with the index or without."""
    rng = np.random.default_rng(0)
    blocks = leaves * LEAF // SIZE
    cache_config = CacheConfig(capacity=blocks, index="radix", prefix_caching=caching)
    before = resident()
    kv = KVCacheManager(Config(cache=cache_config))
    seqs = []
    for _ in range(leaves):
        prompt = rng.integers(VOCABULARY, size=LEAF, dtype=np.uint32)
        if caching:
            cache(kv, prompt)
        else:
            seqs.append(kv.allocate(None, num_tokens=LEAF).seq)
    return resident() - before


def bytes_per_token(quick: bool) -> Round:
    """Rounds in processes of their own."""
    return lambda: filled(64 if quick else 4_096)


def _compare() -> float:
    return floors.copy_bytes(4 * LONG)


COMPARE = "a copy of the prompt's 128 KiB"
TABLE = "a NumPy call that writes a scattered entry"
SIDE = "for_sglang.py"

WORKS = (
    *(
        Work(
            f"match_32k_{nodes}",
            matching(nodes),
            bar,
            _compare,
            COMPARE,
            peer=f"match_32k_{nodes}",
            side=SIDE,
        )
        for nodes, bar in ((1, 15.0), (64, 20.0), (512, 60.0))
    ),
    Work(
        "radix_stream",
        stream,
        bar=50.0,
        floor=lambda: floors.copy_bytes(4 * 5_120),
        floor_is="a copy of the mean request's tokens",
        peer="radix_stream",
        side=SIDE,
    ),
    *(
        Work(
            f"evict_one_{leaves}k",
            evicting(leaves * 1_000),
            1.0,
            floors.one_write,
            TABLE,
            peer=f"evict_one_{leaves}k",
            side=SIDE,
        )
        for leaves in (1, 4, 16, 40, 64)
    ),
    *(
        Work(
            f"evict_arc_{keys}k",
            evicting(keys * 1_000, "arc", twice=True),
            2.0,
            floors.one_write,
            TABLE,
        )
        for keys in (5, 20, 80)
    ),
    Work(
        "bytes_per_token",
        bytes_per_token,
        bar=8.0,
        floor=lambda: 4.0,
        floor_is="a 4-byte token id",
        unit="bytes",
    ),
)

if __name__ == "__main__":
    print(grown(int(sys.argv[1]), sys.argv[2] == "1"))
