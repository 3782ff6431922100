"""Where a machine's choices come from: a seed, or hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Choices made of numbers below a bound; 0 is the plainest."""

    def __init__(self, below: Callable[[int], int]) -> None:
        self.below = below

    @classmethod
    def seeded(cls, seed: str) -> Dice:
        throw = random.Random(seed).random
        return cls(lambda n: int(throw() * n))

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def pick(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def one_in(self, n: int) -> bool:
        return self.below(n) == n - 1

    def bits(self, count: int) -> list[int]:
        """So many zeros and ones, in one throw."""
        number = self.below(2**count)
        return [number >> i & 1 for i in range(count)]
