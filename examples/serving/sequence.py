"""What the engine knows of a running or waiting sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from examples.serving.pages import Floats
from examples.serving.workload import Turn

from kvframe import Request


@dataclass(eq=False)
class Sequence:
    """One answer to one turn.

    Attributes:
        turn: What it answers.
        order: (arrival of the turn, sample): who came first goes first.
        tokens: Prompt and answer so far. The last one of an answer has no KV yet.
        request: Brings it in, or back after a preemption. Made once, so that it is hashed once.
        answers: By sample, shared by all samples of the turn; each enters its own at its end.
        branches: Samples that will fork from it once its prompt is computed, its own included.
        handle: The manager's handle, while it runs.
        known: Tokens that the manager knows.
        computed: Tokens whose KV is in pages.
    """

    turn: Turn
    order: tuple[int, int]
    tokens: list[int]
    request: Request
    answers: dict[int, list[int]] = field(default_factory=dict)
    branches: int = 1
    handle: int = -1
    known: int = 0
    computed: int = 0

    @property
    def answer(self) -> list[int]:
        """What was generated."""
        return self.tokens[len(self.turn.prompt) :]

    @property
    def finished(self) -> bool:
        """Whether the answer is complete."""
        return len(self.answer) == self.turn.max_new

    def sample(self, logits: Floats) -> None:
        """Draw the next token."""
        self.tokens.append(draw(self.turn, self.order[1], len(self.tokens), logits))


def draw(turn: Turn, sample: int, place: int, logits: Floats) -> int:
    """The token at a place of an answer, by the Gumbel-max rule.

    The noise hangs on who asks and where, not on when: the same turn gets the same answer however
    it was scheduled, and samples of one prompt part ways.
    """
    noise = np.random.default_rng((turn.session, turn.index, sample, place))
    return int(np.argmax(logits + noise.gumbel(size=logits.shape)))


@dataclass
class Work:
    """Tokens ``start`` to ``end`` of a sequence, to be computed in this step."""

    seq: Sequence
    start: int
    end: int
    prefill: bool = False


@dataclass
class Counters:
    """What an engine did.

    Attributes:
        prefill: Tokens of prompts computed, those of resumed sequences included.
        preemptions: Sequences that lost their blocks.
        copies: Pages copied before a write.
        steps: Steps that computed something.
    """

    prefill: int = 0
    preemptions: int = 0
    copies: int = 0
    steps: int = 0
