"""Random traffic through two managers: equal hits at every admission, or each that is not, told."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.peers.scenarios import Side

VOCABULARY = 50_000


@dataclass(frozen=True)
class Shape:
    """A trace.

    Attributes:
        seed: Of its dice.
        blocks: Of the pool, the null block among them.
        block_size: Tokens.
        window: Of a second layer group; 0 for none.
        again: Whether prompts are asked again to the token. One that is cached to its end and fills
            its last block is computed again there: a copy of a block that is cached already.
        at_once: Whether vLLM, too, gives up at once what left a window; by itself it waits till the
            request grows.
    """

    seed: int
    blocks: int
    block_size: int
    window: int = 0
    again: bool = False
    at_once: bool = False


@dataclass
class Told:
    """What a trace showed."""

    requests: int = 0
    refused: int = 0
    preempted: int = 0
    hit_tokens: list[int] = field(default_factory=lambda: [0, 0])
    appends: int = 0
    different: list[str] = field(default_factory=list)
    copies_before: int = 0
    """Blocks that kvframe had stored twice when the first answer differed."""


class Traffic:
    """Both managers, and the requests that run in them."""

    def __init__(self, shape: Shape, sides: tuple[Side, Side]) -> None:
        self.shape, self.sides = shape, sides
        self.dice, self.told = Random(shape.seed), Told()
        self.running: dict[str, list[int]] = {}
        size = shape.block_size
        self.texts = [self._tokens(self.dice.randrange(1, 12 * size)) for _ in range(6)]
        for side in sides:
            made = {"blocks": shape.blocks, "block_size": size, "window": shape.window}
            side.call("make", **made, at_once=shape.at_once)

    def _tokens(self, count: int) -> list[int]:
        return [self.dice.randrange(VOCABULARY) for _ in range(count)]

    def _both(self, op: str, **args: Any) -> tuple[Any, Any]:
        ours, theirs = (side.call(op, **args) for side in self.sides)
        return ours, theirs

    def _prompt(self) -> list[int]:
        text = self.dice.choice(self.texts)
        if self.shape.again and self.dice.random() < 0.5:
            return text
        head = text[: self.dice.randrange(len(text) + 1)]
        # A conversation goes on, or somebody shares a system prompt.
        return head + self._tokens(self.dice.randrange(1, 4 * self.shape.block_size))

    def _differs(self, said: str) -> None:
        if not self.told.different:
            self.told.copies_before = self.sides[0].call("copies")
        self.told.different.append(said)

    def admit(self) -> None:
        """A request comes; where there is no room, the oldest ends."""
        name, prompt = f"r{self.told.requests}", self._prompt()
        self.told.requests += 1
        ours, theirs = self._both("alloc", name=name, tokens=prompt)
        found = [None if given is None else given["hit"] for given in (ours, theirs)]
        if found[0] != found[1]:
            said = f"{name} of {len(prompt)} tokens: kvframe {found[0]}, vLLM {found[1]}"
            self._differs(said)
        self.told.hit_tokens = [
            total + (hit or 0) for total, hit in zip(self.told.hit_tokens, found, strict=True)
        ]
        if None in found:
            self.told.refused += 1
            for side, hit in zip(self.sides, found, strict=True):
                if hit is not None:
                    side.call("free", name=name)
            if self.running:
                self.end(next(iter(self.running)))
            return
        self.running[name] = prompt

    def grow(self, name: str) -> None:
        """Some tokens are decoded; where there is no room, the request is preempted."""
        tokens = self._tokens(self.dice.randrange(1, 5))
        self.told.appends += 1
        ours, theirs = self._both("append", name=name, tokens=tokens)
        if (ours is None) != (theirs is None):
            refused = "kvframe" if ours is None else "vLLM"
            self._differs(f"{name} grows: only {refused} has no room")
        if ours is None or theirs is None:
            self.told.preempted += 1
            self.end(name)
            return
        self.running[name] = self.running[name] + tokens

    def end(self, name: str) -> None:
        """A request ends; what it said may be gone on from."""
        text = self.running.pop(name)
        self._both("free", name=name)
        if len(text) < 20 * self.shape.block_size and self.dice.random() < 0.5:
            self.texts[self.dice.randrange(len(self.texts))] = text


LADDER = ((64, 16), (40, 4), (200, 16), (30, 8), (90, 2), (48, 32))
EQUAL = [
    *(Shape(seed, blocks, size) for seed, (blocks, size) in enumerate(LADDER)),
    *(Shape(seed, 4_000, size, 3 * size - 5) for seed, size in ((20, 16), (21, 4))),
]
"""Every admission must be equal: full attention in tight pools, a window too in a roomy one."""

EXPLAINED = {
    "copies": [Shape(seed, *pool, again=True) for seed, pool in ((11, (24, 16)), (41, (40, 4)))],
    "windows": [
        Shape(seed, blocks, size, window, at_once=True)
        for seed, blocks, size, window in ((60, 60, 16, 40), (61, 60, 4, 9), (62, 100, 16, 48))
    ],
    "window lag": [Shape(80, 100, 16, 40), Shape(81, 200, 16, 48)],
}
"""Traces where answers differ now and then, by the reason in differences.toml."""

REQUESTS = 400
MOST = {"copies": 0.1, "windows": 0.1, "window lag": 0.15}
"""Of the admissions of an explained trace, so many may differ."""


def run(shape: Shape, sides: tuple[Side, Side], requests: int = REQUESTS) -> Told:
    """Serve that many requests in both: ``sides`` are kvframe's and vLLM's."""
    traffic = Traffic(shape, sides)
    while traffic.told.requests < requests:
        if len(traffic.running) < 8:
            traffic.admit()
        for name in list(traffic.running):
            if traffic.dice.random() < 0.5:
                traffic.grow(name)
            elif traffic.dice.random() < 0.2:
                traffic.end(name)
    return traffic.told
