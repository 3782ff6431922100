"""Chats under a few system prompts, whose users come back with more after a while."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvframe.bench.verify.engine import Engine

SYSTEMS = 4
"""System prompts; a chat has one of them, the first more often than the last."""
TURNS = 3


@dataclass(frozen=True)
class Chat:
    """A conversation.

    Attributes:
        arrives: Milliseconds from the start to its first request.
        system: What each of its prompts begins with.
        questions: What its user says, turn by turn.
        pauses: Milliseconds from an answer's end to the next question.
        answer: Tokens of each answer.
    """

    arrives: int
    system: tuple[int, ...]
    questions: tuple[tuple[int, ...], ...]
    pauses: tuple[int, ...]
    answer: int


def chats(count: int, engine: Engine, seed: int = 0) -> list[Chat]:
    """So many chats that all arrive at once, as long as the engine can serve."""
    draw = np.random.default_rng(seed)

    def words(tokens: int) -> tuple[int, ...]:
        return tuple(draw.integers(1, engine.vocab, size=tokens).tolist())

    question = (engine.longest * 5 // 8 - TURNS * engine.answer) // TURNS
    systems = [words(engine.longest * share // 64) for share in (20, 12, 16, 8)]
    places = draw.choice(SYSTEMS, size=count, p=(0.4, 0.3, 0.2, 0.1))
    sizes = draw.integers(question // 3, question, size=(count, TURNS))
    return [
        Chat(
            arrives=0,
            system=systems[place],
            questions=tuple(words(size) for size in row),
            pauses=(0,) * (TURNS - 1),
            answer=engine.answer,
        )
        for place, row in zip(places, sizes, strict=True)
    ]


def spread(all_chats: list[Chat], seconds: float, seed: int = 0) -> list[Chat]:
    """The same chats over so many seconds, with pauses of a tenth of that on the mean."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.uniform(0, seconds * 1e3, size=len(all_chats)))
    pauses = draw.exponential(seconds * 100, size=(len(all_chats), TURNS - 1))
    return [
        replace(chat, arrives=round(at), pauses=tuple(round(pause) for pause in row))
        for chat, at, row in zip(all_chats, times.tolist(), pauses.tolist(), strict=True)
    ]
