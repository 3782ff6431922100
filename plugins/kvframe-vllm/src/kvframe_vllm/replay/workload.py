"""Requests for the scheduler: families that share a prefix, among scans that share nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass

VOCABULARY = 40_000


@dataclass(frozen=True)
class Families:
    """A fixed random choice of requests.

    Attributes:
        requests: How many.
        families: Prefixes; the i-th is asked for 1 / i times as often as the first (Zipf).
        prefix: Tokens of each.
        tail: Tokens that a request adds to its prefix: at least, below.
        scan: Tokens of a request without one.
        scans: Share of those.
        seed: Of the random choice.
    """

    requests: int = 300
    families: int = 20
    prefix: int = 512
    tail: tuple[int, int] = (16, 128)
    scan: tuple[int, int] = (256, 1024)
    scans: float = 0.4
    seed: int = 7

    def prompts(self) -> list[list[int]]:
        """The token ids of each request, in the order of arrival."""
        chance = random.Random(self.seed)

        def tokens(n: int) -> list[int]:
            return [chance.randrange(VOCABULARY) for _ in range(n)]

        prefixes = [tokens(self.prefix) for _ in range(self.families)]
        weights = [1 / (rank + 1) for rank in range(self.families)]
        prompts = []
        for _ in range(self.requests):
            if chance.random() < self.scans:
                prompts.append(tokens(chance.randrange(*self.scan)))
            else:
                prefix = chance.choices(prefixes, weights)[0]
                prompts.append(prefix + tokens(chance.randrange(*self.tail)))
        return prompts
