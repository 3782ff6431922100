"""The steps that are measured: some to fit a profile to, others to judge it by."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

CONTEXTS = (128, 1_024, 4_096, 16_384, 32_768)
BATCHES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CHUNKS = (16, 64, 128, 256, 384, 512, 768, 1_024, 1_536, 2_048, 4_096, 8_192)
BEFORE = (0, 2_048, 8_192, 16_384, 30_720)
MIXED_CHUNKS = (128, 512, 1_920)
MIXED_BATCHES = (8, 64, 192)


@dataclass(frozen=True)
class Step:
    """What one step of a server computes.

    Attributes:
        chunk: Prompt tokens of one request; 0 if none is prefilled.
        before: Tokens of that prompt which are cached or computed before.
        contexts: Tokens that each decoding sequence attends to.
    """

    chunk: int = 0
    before: int = 0
    contexts: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens that pass through the model."""
        return self.chunk + len(self.contexts)

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV the step reads."""
        held = self.before + self.chunk if self.chunk else 0
        return held + sum(self.contexts)


def fitted(room: int) -> Iterator[Step]:
    """The grid: decoding alone, prefill alone, and both, within ``room`` tokens of KV."""
    steps = [Step(contexts=(context,) * n) for n in BATCHES for context in CONTEXTS]
    steps += [Step(chunk, before) for chunk in CHUNKS for before in BEFORE]
    steps += [Step(chunk, 0, (2_048,) * n) for chunk in MIXED_CHUNKS for n in MIXED_BATCHES]
    return (step for step in steps if step.kv_tokens <= room)


def held_out(room: int, count: int = 60, seed: int = 1) -> Iterator[Step]:
    """Steps off the grid: other chunks, batches of mixed contexts, prompts up to 32k tokens."""
    draw = random.Random(seed)
    found = 0
    while found < count:
        kind = found % 3
        n = 0 if kind == 0 else int(2 ** draw.uniform(0, 8.6))
        longest = int(2 ** draw.uniform(7, 15))
        contexts = tuple(draw.randint(longest // 4, longest) for _ in range(n))
        chunk = 0 if kind == 1 else int(2 ** draw.uniform(4, 13))
        before = 0 if chunk == 0 else int(draw.choice((0, 1)) * 2 ** draw.uniform(8, 14.9))
        step = Step(chunk, min(before, 32_768 - chunk), contexts)
        if step.kv_tokens <= room:
            found += 1
            yield step
