"""Under either index a policy is told the same keys, and so decides the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import pytest

from kvframe import CacheConfig, Config, EvictionConfig, KVCacheManager
from kvframe.policies import BatchedEviction, Candidates
from kvframe.policies.builtin import BUILTIN

from ..manager.helpers import manager, registry


def order_of_death(kv: KVCacheManager, seed: int, requests: int) -> list[Any]:
    """What a stream of growing, branching and returning prompts finds, and what is evicted when."""
    dice = random.Random(seed)
    prompts: list[list[int]] = [[]]
    told: list[Any] = []
    for i in range(requests):
        start = dice.choice(prompts[-12:] if dice.random() < 0.7 else prompts)
        prompt = [
            *start[: 4 * dice.randint(0, 4)],
            *(i * 8 + n for n in range(4 * dice.randint(0, 2))),
        ]
        prompt.append(0)
        prompts.append(prompt[:-1])
        grant = kv.allocate(
            prompt, cache_salt=dice.choice(("", "", "s")), session=dice.randint(0, 3)
        )
        told.append((grant.cached_tokens, kv.block_table(grant.seq).tolist()))
        kv.commit(grant.seq, len(prompt))
        kv.release(grant.seq)
        told.append(kv.inspect.eviction_order().tolist())
    return told


@pytest.mark.scenario("VT62", "F32")
@pytest.mark.parametrize("policy", [policy.name for policy in BUILTIN if not policy.replay_only])
def test_a_policy_decides_alike_under_either_index(policy: str) -> None:
    """Ghosts and sketches go by keys, also where nothing is found by them."""

    def cache(index: Any) -> KVCacheManager:
        cached = CacheConfig(capacity=12, block_size=4, index=index)
        return KVCacheManager(Config(cache=cached, eviction=EvictionConfig(policy=policy)))

    by_key, by_tokens = (order_of_death(cache(index), 5, 300) for index in ("hash", "radix"))
    for here, there in zip(by_key, by_tokens, strict=True):
        assert here == there


class Keyed(BatchedEviction):
    """Asks for keys as a column alone."""

    columns = ("key",)

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()

    def score(self, candidates: Candidates, out: npt.NDArray[Any]) -> None:
        self.seen |= {tuple(row) for row in candidates["key"].tolist()}
        out[:] = 0


@pytest.mark.scenario("F32")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_a_policy_that_asks_for_keys_as_a_column_gets_those_of_the_tokens(index: str) -> None:
    policy = Keyed()
    kv = manager(3, policy="test", known=registry("test", lambda _: policy), index=index)
    keys: Sequence[Any] = kv.blocks.hash_blocks([1, 2, 3, 4]).tolist()
    for prompt in ([1, 2, 3, 4, 5], [6, 7, 8, 9, 5], [5, 5, 5, 5, 5]):
        grant = kv.allocate(prompt)
        kv.commit(grant.seq, 5)
        kv.release(grant.seq)
    assert tuple(keys[0]) in policy.seen
