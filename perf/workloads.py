"""Made-up traffic on which a policy must not lose: each family is a shape that some get wrong.

Prompts are lists of block ids; an id stands for everything up to it, as in the Mooncake traces.
Same seed, same prompts, on every machine.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator

Prompts = list[list[int]]
SIZE = 512
"""Tokens a block."""


class Ids:
    """Hands out ids nobody had before."""

    def __init__(self) -> None:
        self._next = 0

    def new(self, n: int) -> list[int]:
        """``n`` fresh ids."""
        self._next += n
        return list(range(self._next - n, self._next))


def _length(dice: random.Random, mean: float) -> int:
    return 1 + int(dice.expovariate(1 / mean))


def _zipf(n: int, alpha: float) -> list[float]:
    return [(i + 1) ** -alpha for i in range(n)]


def chat(dice: random.Random, ids: Ids, think: float = 40.0, sessions: int = 1_500) -> Prompts:
    """Conversations that grow: each turn asks for all before it, after a pause."""
    due = [(dice.uniform(0, sessions), n, ids.new(_length(dice, 12))) for n in range(sessions)]
    heapq.heapify(due)
    prompts = []
    while due:
        now, n, known = heapq.heappop(due)
        prompts.append(known)
        if dice.random() < 0.7:
            pause = dice.expovariate(1 / think)
            heapq.heappush(due, (now + pause, n, known + ids.new(_length(dice, 3))))
    return prompts


def documents(dice: random.Random, ids: Ids, alpha: float = 0.9, n: int = 400) -> Prompts:
    """Documents of unequal popularity, each asked new questions; no recency at all."""
    texts = [ids.new(_length(dice, 20)) for _ in range(n)]
    return [text + ids.new(1) for text in dice.choices(texts, _zipf(n, alpha), k=4_000)]


def drift(dice: random.Random, ids: Ids) -> Prompts:
    """Popular documents that go out of fashion."""
    texts = [ids.new(_length(dice, 20)) for _ in range(400)]
    weights = _zipf(40, 0.7)
    return [
        dice.choices(texts[i // 12 : i // 12 + 40], weights)[0] + ids.new(1) for i in range(4_000)
    ]


def loop(dice: random.Random, ids: Ids, n: int = 150) -> Prompts:
    """The same prompts over and over: recency's worst case."""
    texts = [ids.new(_length(dice, 20)) for _ in range(n)]
    return [texts[i % n] for i in range(4_000)]


def scan(dice: random.Random, ids: Ids) -> Prompts:
    """Nothing ever comes back."""
    return [ids.new(_length(dice, 20)) for _ in range(4_000)]


def hot_and_scan(dice: random.Random, ids: Ids) -> Prompts:
    """A few system prompts among one-off requests."""
    hot = [ids.new(_length(dice, 30)) for _ in range(30)]
    return [
        dice.choice(hot) + ids.new(2) if dice.random() < 0.3 else ids.new(_length(dice, 25))
        for _ in range(4_000)
    ]


def bursts(dice: random.Random, ids: Ids, reach: int = 8) -> Prompts:
    """What is used is used again within a few requests, or never."""
    recent = [ids.new(_length(dice, 20))]
    prompts = []
    for _ in range(4_000):
        if dice.random() < 0.6:
            prompts.append(dice.choice(recent[-reach:]))
        else:
            recent.append(ids.new(_length(dice, 20)))
            prompts.append(recent[-1])
    return prompts


def pairs(dice: random.Random, ids: Ids, gap: int = 60) -> Prompts:
    """Used exactly twice, the second time after a fixed while: a second use means the end."""
    waiting: list[list[int]] = []
    prompts = []
    for i in range(4_000):
        if len(waiting) > gap and i % 2:
            prompts.append(waiting.pop(0))
        else:
            waiting.append(ids.new(_length(dice, 20)))
            prompts.append(waiting[-1])
    return prompts


def turncoat(dice: random.Random, ids: Ids) -> Prompts:
    """What comes back in one phase does not in the next, by number of uses."""
    prompts: Prompts = []
    for phase in range(8):
        old = [ids.new(_length(dice, 20)) for _ in range(60)]
        for _ in range(500):
            if (dice.random() < 0.5) == (phase % 2 == 0):
                prompts.append(dice.choice(old))
            elif phase % 2 == 0 or dice.random() < 0.5 or len(prompts) < 40:
                prompts.append(ids.new(_length(dice, 20)))
            else:
                prompts.append(prompts[-dice.randrange(1, 40)])
    return prompts


def branches(dice: random.Random, ids: Ids) -> Prompts:
    """A tree that is walked anew from its root and grows at its leaves."""
    children: dict[int, list[list[int]]] = {}
    prompts = []
    for _ in range(3_000):
        path: list[int] = []
        at = -1
        while True:
            below = children.setdefault(at, [])
            if len(below) < 3 and dice.random() < 0.4:
                below.append(ids.new(_length(dice, 4)))
                path += below[-1]
                break
            if not below:
                break
            step = dice.choices(below, _zipf(len(below), 1.0))[0]
            path += step
            at = step[-1]
        prompts.append(path or ids.new(1))
    return prompts


def retries(dice: random.Random, ids: Ids) -> Prompts:
    """Each prompt is sent a few times at once, and some once more after a long while."""
    prompts: Prompts = []
    for _ in range(1_200):
        text = ids.new(_length(dice, 20))
        prompts += [text] * dice.randrange(1, 4)
        if len(prompts) > 600 and dice.random() < 0.3:
            prompts.append(dice.choice(prompts[-600:-400]))
    return prompts


def agents(dice: random.Random, ids: Ids, sessions: int = 40) -> Prompts:
    """Few long sessions with many short steps, and pauses of a hundred steps."""
    known = [ids.new(_length(dice, 40)) for _ in range(sessions)]
    awake = list(range(8))
    prompts = []
    for _ in range(2_500):
        i = dice.randrange(len(awake))
        if dice.random() < 0.05:
            awake[i] = dice.randrange(sessions)
        session = awake[i]
        prompts.append(known[session])
        known[session] = known[session] + ids.new(_length(dice, 1))
        if len(known[session]) > 200 and dice.random() < 0.1:
            known[session] = ids.new(_length(dice, 40))
    return prompts


def phases(dice: random.Random, ids: Ids) -> Prompts:
    """One shape after the other."""
    parts: list[Family] = [bursts, documents, scan, chat, loop, agents]
    return [prompt for part in parts for prompt in part(dice, ids)[:1_500]]


def single(dice: random.Random, ids: Ids) -> Prompts:
    """One request."""
    return [ids.new(_length(dice, 20))]


Family = Callable[[random.Random, Ids], Prompts]
FAMILIES: dict[str, Family] = {
    "chat": chat,
    "chat-slow": lambda dice, ids: chat(dice, ids, think=400.0),
    "documents": documents,
    "documents-steep": lambda dice, ids: documents(dice, ids, alpha=1.3),
    "drift": drift,
    "loop": loop,
    "scan": scan,
    "hot-and-scan": hot_and_scan,
    "bursts": bursts,
    "bursts-wide": lambda dice, ids: bursts(dice, ids, reach=60),
    "pairs": pairs,
    "turncoat": turncoat,
    "branches": branches,
    "retries": retries,
    "agents": agents,
    "phases": phases,
    "single": single,
}


def made(family: str, seed: int = 0) -> Prompts:
    """The prompts of a family."""
    return FAMILIES[family](random.Random(f"{family} {seed}"), Ids())


def rows(prompts: Iterable[list[int]]) -> Iterator[bytes]:
    """Lines of a Mooncake trace, a request a second."""
    for i, prompt in enumerate(prompts):
        row = {
            "timestamp": 1_000 * i,
            "input_length": SIZE * len(prompt) + 1,
            "output_length": 1,
            "hash_ids": [*prompt, (1 << 40) + i],
        }
        yield json.dumps(row).encode() + b"\n"
