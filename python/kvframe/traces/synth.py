"""Prefixes made up for a trace that has lengths only: explicit rules, and a mark in the file.

Every prompt begins with one of some system prompts. A request goes on a conversation: that of its
session, where rows name one, else one that is drawn. A prompt of a conversation begins with the
prompt before it, unless it is shorter: then only the system prompt is shared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kvframe.traces.reader import Row

OPEN = 256
"""How many conversations may be gone on with, the latest."""


@dataclass(frozen=True)
class SynthRules:
    """What is made up.

    Attributes:
        system_tokens: Tokens of a system prompt.
        systems: How many of them there are; the n-th is drawn as often as 1/n says.
        turns: Mean requests a conversation, where rows name no session.
        block_size: Tokens a block.
        seed: Of the draws.
    """

    system_tokens: int = 512
    systems: int = 1
    turns: float = 1.0
    block_size: int = 16
    seed: int = 0

    @property
    def mark(self) -> str:
        """What the first row of the trace says."""
        return (
            f"prefixes made up: {self.systems} system prompts of {self.system_tokens} tokens, "
            f"{self.turns:g} requests a conversation where no session is named, seed {self.seed}"
        )


@dataclass
class _Talk:
    """A conversation: its number, its system prompt, and the least length of its next prompt."""

    number: int
    system: int
    length: int = 0
    context: int = field(default=0)


def with_prefixes(rows: Iterable[Row], rules: SynthRules) -> Iterator[Row]:
    """The rows with ids of full blocks."""
    dice = np.random.default_rng(rules.seed)
    weights = 1 / np.arange(1, rules.systems + 1)
    weights /= weights.sum()
    known: dict[int | str, _Talk] = {}
    recent: deque[_Talk] = deque(maxlen=OPEN)
    made = 0
    for row in rows:
        talk = known.get(row.session_id) if row.session_id is not None else None
        if row.session_id is None and dice.random() < 1 - 1 / rules.turns:
            fitting = (one for one in reversed(recent) if one.context <= row.input_length)
            talk = next(fitting, None)
        if talk is None or row.input_length < talk.length:
            system = int(dice.choice(rules.systems, p=weights)) if talk is None else talk.system
            talk = _Talk(made, system)
            made += 1
            if row.session_id is None:
                recent.append(talk)
            else:
                known[row.session_id] = talk
        talk.length = row.input_length
        talk.context = row.input_length + row.output_length
        row.hash_ids = _ids(row.input_length, talk, rules)
        row.block_size = rules.block_size
        row.timestamp = round(row.timestamp)
        if row.session_id is None and rules.turns > 1:
            row.session_id = f"made-{talk.number}"
        yield row


def _ids(length: int, talk: _Talk, rules: SynthRules) -> list[int]:
    blocks = length // rules.block_size
    shared = min(rules.system_tokens // rules.block_size, blocks)
    system = (1 << 62) + (talk.system << 32)
    own = (talk.number + 1) << 32
    return [*range(system, system + shared), *range(own + shared, own + blocks)]
