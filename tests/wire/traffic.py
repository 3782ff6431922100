"""A manager under eviction whose blocks are announced, and the questions that a router is asked."""

from __future__ import annotations

import random
from typing import Any

from kvframe import CacheConfig, Config, KVCacheManager, RouterIndex

BLOCK = 4


class Traffic:
    """Prompts that share prefixes, through a manager that is too small for them."""

    def __init__(self, seed: int = 0, capacity: int = 48) -> None:
        self.draw = random.Random(seed)
        self.capacity = capacity
        self.kv = self.manager()
        stems = [[self.draw.randrange(1000) for _ in range(5 * BLOCK)] for _ in range(8)]
        self.prompts = [
            stem[: self.draw.randrange(1, 6) * BLOCK]
            + [self.draw.randrange(1000) for _ in range(self.draw.randrange(1, 12))]
            for stem in stems
            for _ in range(12)
        ]

    def manager(self) -> KVCacheManager:
        cache = CacheConfig(block_size=BLOCK, capacity=self.capacity, event_log=True)
        return KVCacheManager(Config(cache=cache))

    def serve(self, **options: Any) -> None:
        """One request, from allocation to its end."""
        prompt = self.draw.choice(self.prompts)
        seq = self.kv.allocate(prompt, **options).seq
        self.kv.commit(seq, len(prompt))
        self.kv.release(seq)

    def differing(self, index: RouterIndex, worker: int, **names: Any) -> list[tuple[int, int]]:
        """(blocks the router names, blocks the manager finds) where these are not the same."""
        found = []
        for prompt in self.prompts:
            reach = index.match_tokens(prompt, **names).get(worker)
            told = reach.gpu if reach else 0
            # What the manager finds leaves the last token to be computed.
            has = self.kv.lookup([*prompt, 1_000_000], **names).tokens // BLOCK
            if told != has:
                found.append((told, has))
        return found
