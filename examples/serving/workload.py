"""Requests that share prefixes: chats under a few system prompts, which come back with more.

Everything follows from the seed. A follow-up asks with the whole conversation before it, the
model's own answer included, so it hits what was generated as well as what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Turn:
    """A prompt to answer.

    Attributes:
        session: The conversation it belongs to.
        index: Its place in there.
        prompt: Token ids.
        max_new: Tokens to generate.
        samples: Answers to draw; they share the prompt's blocks.
    """

    session: int
    index: int
    prompt: tuple[int, ...]
    max_new: int
    samples: int = 1


@dataclass(frozen=True)
class Session:
    """A conversation: what its user says at each turn, and from which step of the engine on."""

    id: int
    arrives: int
    system: tuple[int, ...]
    questions: tuple[tuple[int, ...], ...]
    max_new: int
    samples: int

    def first(self) -> Turn:
        """The turn that opens it."""
        prompt = self.system + self.questions[0]
        return Turn(self.id, 0, prompt, self.max_new, self.samples)

    def follow_up(self, turn: Turn, answer: list[int]) -> Turn | None:
        """The turn after ``turn`` was answered, or None if the user has no more to say."""
        index = turn.index + 1
        if index == len(self.questions):
            return None
        prompt = turn.prompt + tuple(answer) + self.questions[index]
        return Turn(self.id, index, prompt, self.max_new, self.samples)


def sessions(count: int = 12, *, turns: int = 3, vocab: int = 128, seed: int = 0) -> list[Session]:
    """The workload: two system prompts, every third session draws several samples a turn."""
    draw = np.random.default_rng(seed)

    def words(n: int) -> tuple[int, ...]:
        return tuple(draw.integers(vocab, size=n).tolist())

    systems = [words(44), words(29)]
    return [
        Session(
            id=i,
            arrives=3 * i,
            system=systems[i % 2],
            questions=tuple(words(int(draw.integers(5, 20))) for _ in range(turns)),
            max_new=10,
            samples=3 if i % 3 == 0 else 1,
        )
        for i in range(count)
    ]
