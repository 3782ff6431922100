"""Requests through admit, commit and release, 67 % of their tokens found in the cache."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from perf import floors
from perf.measure import MICRO, quiet
from perf.sides.workload import LIVE, POOL, prompts
from perf.work import Round, Work, manager

BLOCKS = 318
"""Blocks of the mean request."""


def serving(hashed: bool, events: bool) -> Callable[[bool], Round]:
    """Rounds of the whole stream; µs a request.

    Args:
        hashed: Admit token ids, hashed on the way in; otherwise keys that were made before.
        events: Keep the event log, and take it after each request.
    """

    def make(quick: bool) -> Round:
        stream = prompts(60 if quick else 2_000)
        hasher = manager(1)
        keys = [hasher.blocks.hash_blocks(prompt) for prompt in stream]

        def once() -> float:
            kv = manager(POOL, events=events)
            live: deque[int] = deque()
            with quiet():
                start = time.perf_counter()
                for prompt, key in zip(stream, keys, strict=True):
                    if len(live) == LIVE:
                        kv.release(live.popleft())
                    if hashed:
                        grant = kv.allocate(prompt)
                    else:
                        grant = kv.allocate(None, keys=key, num_tokens=len(prompt))
                    kv.commit(grant.seq, grant.prompt_tokens)
                    live.append(grant.seq)
                    if events:
                        kv.log.take_events()
                took = time.perf_counter() - start
            stats = kv.stats.counters()
            if not quick and not 0.6 < stats["hit_tokens"] / stats["prompt_tokens"] < 0.75:
                raise AssertionError(f"not the workload that was meant: {stats}")
            return took / len(stream) * MICRO

        return once

    return make


def _least_of_keys() -> float:
    return floors.copy_bytes(BLOCKS * 16)


def _least_of_sha256() -> float:
    return floors.sha256_blocks(BLOCKS)


KEYS, SHA256 = "a copy of 318 16-byte keys", "hashlib.sha256 over 318 blocks in one digest"

WORKS = (
    Work(
        "admit_commit_free",
        serving(hashed=False, events=False),
        bar=40.0,
        floor=_least_of_keys,
        floor_is=KEYS,
        peer="admit_commit_free",
    ),
    Work(
        "admit_commit_free_events",
        serving(hashed=False, events=True),
        bar=60.0,
        floor=_least_of_keys,
        floor_is=KEYS,
        peer="admit_commit_free_events",
    ),
    Work(
        "admit_commit_free_sha256",
        serving(hashed=True, events=False),
        bar=100.0,
        floor=_least_of_sha256,
        floor_is=SHA256,
        peer="admit_commit_free_sha256",
    ),
    Work(
        "admit_commit_free_sha256_events",
        serving(hashed=True, events=True),
        bar=120.0,
        floor=_least_of_sha256,
        floor_is=SHA256,
        peer="admit_commit_free_sha256_events",
    ),
)
