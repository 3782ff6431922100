"""A prompt in chunks: policies with ghosts hear of the same keys as of the whole."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import KVCacheManager
from kvframe.policies import BatchedEviction, Candidates
from tests.manager.helpers import manager, registry

SIZE, BLOCKS = 4, 48


def prompts(count: int = 400) -> Iterator[list[int]]:
    """Prompts over a few stems, some of which come back after they were evicted."""
    draw = random.Random(3)
    stems = [[draw.randrange(1_000) for _ in range(40)] for _ in range(9)]
    for _ in range(count):
        stem = stems[min(int(draw.expovariate(0.4)), len(stems) - 1)]
        yield stem[: draw.randrange(8, 41)] + [draw.randrange(1_000) for _ in range(12)]


def found(kv: KVCacheManager, chunk: int | None) -> list[int]:
    """Tokens found of each prompt; all slots of one are there before any of it is computed."""
    cached = []
    for tokens in prompts():
        grant = kv.allocate(tokens, until=None if chunk is None else kv.lookup(tokens).tokens)
        for until in range(grant.granted_tokens, len(tokens), chunk or len(tokens)):
            kv.extend(grant.seq, min(until + (chunk or 0), len(tokens)))
        kv.commit(grant.seq, len(tokens))
        kv.release(grant.seq)
        cached.append(grant.cached_tokens)
    return cached


@pytest.mark.parametrize("policy", ["2q", "arc", "lirs", "mq", "s3-fifo"])
def test_ghosts_are_found_whatever_the_chunks(policy: str) -> None:
    def served(chunk: int | None) -> list[int]:
        return found(manager(BLOCKS, SIZE, policy=policy), chunk)

    whole = served(None)
    assert sum(whole) > 0
    assert served(SIZE) == served(3 * SIZE + 1) == whole


class Heard(BatchedEviction):
    """Evicts by place; notes the keys that were missed."""

    columns = ("block",)

    def __init__(self) -> None:
        self.missed: list[int] = []

    def on_miss(self, keys: npt.NDArray[np.uint64], now: int) -> None:
        self.missed += keys[:, 0].tolist()

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = candidates["block"]


def test_a_policy_in_python_hears_of_every_chunk() -> None:
    def served(chunk: int | None) -> list[int]:
        policy = Heard()
        known = registry("heard", lambda _: policy)
        found(manager(BLOCKS, SIZE, policy="heard", known=known), chunk)
        return policy.missed

    assert served(SIZE) == served(3 * SIZE + 1) == served(None) != []
