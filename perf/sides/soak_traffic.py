"""The prompts of `perf.soak`, by their numbers: every side makes the same. Needs only Python."""

from __future__ import annotations

import random
from functools import lru_cache

BLOCK = 16
STEMS = 60


@lru_cache
def stem(number: int) -> list[int]:
    """A beginning that prompts share."""
    draw = random.Random(f"stem {number}")
    return [draw.randrange(30_000) for _ in range(BLOCK * draw.randrange(2, 12))]


def prompt(number: int) -> list[int]:
    """A prompt: a stem, the more popular ones more often, some of them cut, and an end."""
    draw = random.Random(f"prompt {number}")
    head = stem(min(draw.randrange(STEMS), draw.randrange(STEMS)))
    head = head[: draw.randrange(1, len(head) + 1)] if draw.random() < 0.3 else head
    # Some prompts come again word by word.
    end = random.Random(f"end {draw.randrange(400)}") if draw.random() < 0.4 else draw
    return [*head, *(end.randrange(30_000) for _ in range(end.randrange(1, 5 * BLOCK)))]
