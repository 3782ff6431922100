"""What prompts are made of, and the rows of a trace that they become.

A prompt is a sequence of texts, each of so many tokens. Where two prompts begin with the same
texts, they share blocks up to the last whole one; a text need not begin or end where a block does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

BLOCK = 256
"""Tokens in a block."""


class Text(NamedTuple):
    """A text that is always tokenised alike; ``number`` tells it from all others."""

    number: int
    tokens: int


class Prompt(NamedTuple):
    """A request: seconds of its arrival, what it says, tokens of its answer, its session."""

    at: float
    texts: tuple[Text, ...]
    output: int
    session: str | None = None


@dataclass
class Author:
    """Writes texts and draws numbers; everything follows from its seed."""

    seed: str
    random: Random = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def text(self, tokens: float) -> Text:
        """A new text of at least one token."""
        self._written += 1
        return Text(self._written, max(1, round(tokens)))

    def about(self, median: float, spread: float, most: float = math.inf) -> float:
        """A log-normal number; ``spread`` is the deviation of its logarithm."""
        return min(self.random.lognormvariate(math.log(median), spread), most)

    def answer(self, mean: float) -> int:
        """Tokens of an answer: exponential, as ServeGen found (Xiang et al., 2025)."""
        return max(1, round(self.random.expovariate(1 / mean)))


def spread_by_rank(count: int, slope: float) -> list[float]:
    """Zipf's weights of ranks 1 to ``count``."""
    return [rank**-slope for rank in range(1, count + 1)]


def arrivals(random: Random, count: int, seconds: float, swing: float = 0.0) -> list[float]:
    """Times of a Poisson process whose rate swings by this share over a day, given their count."""
    found: list[float] = []
    while len(found) < count:
        at = random.uniform(0, seconds)
        rate = 1 + swing * math.sin(2 * math.pi * at / 86_400)
        if random.uniform(0, 1 + swing) < rate:
            found.append(at)
    return sorted(found)


def rows(prompts: Iterable[Prompt]) -> Iterator[bytes]:
    """Rows of Mooncake's form in the order of time, with an id for each whole block."""
    known: dict[tuple[int, tuple[tuple[int, int, int], ...]], int] = {}
    for prompt in sorted(prompts, key=lambda prompt: prompt.at):
        ids = [0]
        for spans in _blocks(prompt.texts):
            ids.append(known.setdefault((ids[-1], spans), len(known) + 1))
        row: dict[str, object] = {
            "timestamp": round(prompt.at * 1000),
            "input_length": sum(text.tokens for text in prompt.texts),
            "output_length": prompt.output,
            "hash_ids": ids[1:],
            "block_size": BLOCK,
        }
        if prompt.session is not None:
            row["session_id"] = prompt.session
        yield json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _blocks(texts: Sequence[Text]) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Of each whole block, the parts of texts in it."""
    spans: list[tuple[int, int, int]] = []
    room = BLOCK
    for text in texts:
        start = 0
        while start < text.tokens:
            end = min(text.tokens, start + room)
            spans.append((text.number, start, end))
            room -= end - start
            start = end
            if not room:
                yield tuple(spans)
                spans, room = [], BLOCK
