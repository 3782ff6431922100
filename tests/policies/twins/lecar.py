"""LeCaR: recency or frequency, by dice weighted with regret."""

from __future__ import annotations

import math

from .base import Block, Keys, Ranking, Use
from .draws import Dice

EPSILON = 1e-10


class Lecar(Ranking):
    """Each expert remembers what it alone had evicted."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.trust = {"recency": 0.5, "frequency": 0.5}
        self.gone = {"recency": Keys(), "frequency": Keys()}
        self.time = 0
        self.dice = Dice(options["seed"])
        self.blamed = ""

    def missed(self, key: tuple[int, int]) -> None:
        for expert, gone in self.gone.items():
            then = gone.pop(key)
            if then is not None:
                regret = 0.005 ** ((self.time - then) / self.capacity)
                self.trust[expert] *= math.exp(-0.45 * regret)
                total = sum(trust + EPSILON for trust in self.trust.values())
                self.trust = {e: (t + EPSILON) / total for e, t in self.trust.items()}

    def touched(self, block: Block, use: Use) -> None:
        self.time += 1

    def victim(self, leaves: list[Block]) -> Block:
        recent = min(leaves, key=lambda b: (b["last"], -b.depth, b.id))
        frequent = min(leaves, key=lambda b: (b["uses"], b["last"], -b.depth, b.id))
        self.blamed = ""
        if recent is frequent:
            return recent
        self.blamed = "recency" if self.dice.share() < self.trust["recency"] else "frequency"
        return recent if self.blamed == "recency" else frequent

    def evicted(self, block: Block) -> None:
        if self.blamed:
            self.gone[self.blamed].add(block.key, self.time, self.capacity // 2)
        self.blamed = ""
