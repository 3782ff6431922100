"""Loads of different reuse, for measurements across loads: the same requests in every run.

Each can be made a number of times larger: as many more requests, and prefixes, users, documents.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from pathlib import Path

import msgspec

from kvframe.traces.rewrite import convert
from kvframe.traces.source import ReadOptions
from kvframe_vllm.replay.workload import VOCABULARY, Families

OUTPUT = 16
"""Tokens that each request generates."""

REQUESTS = 300
"""Requests of a load, times its scale."""

BLOCK = 16
"""Tokens that stand for an id of a trace, however many it has there."""

LONGEST = 1900
"""Tokens of a prompt; a conversation that would exceed it begins anew."""


def families(scale: int = 1) -> list[list[int]]:
    """Prefixes of families among scans that share nothing."""
    return Families(requests=REQUESTS * scale, families=20 * scale).prompts()


def chat(scale: int = 1, seed: int = 11) -> list[list[int]]:
    """Conversations, each turn of which repeats the ones before and their answers."""
    requests, users = REQUESTS * scale, 40 * scale
    chance = random.Random(seed)
    system = _tokens(chance, 200)
    history = [list(system) for _ in range(users)]
    # Some talk often, some rarely.
    weights = [1 / (rank + 1) ** 0.7 for rank in range(users)]
    prompts = []
    for number in range(requests):
        user = chance.choices(range(users), weights)[0]
        if len(history[user]) > LONGEST - 200:
            history[user] = list(system)
        history[user] += _tokens(chance, chance.randrange(20, 160))
        prompts.append(list(history[user]))
        history[user] += answer(number, len(history[user]))
    return prompts


def documents(scale: int = 1, seed: int = 13) -> list[list[int]]:
    """Questions on documents, of which most come round in turn, and one-off documents between."""
    requests, shelf = REQUESTS * scale, 24 * scale
    chance = random.Random(seed)
    texts = [_tokens(chance, chance.randrange(300, 700)) for _ in range(shelf)]
    prompts, turn = [], 0
    for _ in range(requests):
        if chance.random() < 0.25:
            text = _tokens(chance, chance.randrange(200, 900))
        elif chance.random() < 0.3:
            text = texts[chance.randrange(4)]
        else:
            text, turn = texts[turn % shelf], turn + 1
        prompts.append(text + _tokens(chance, chance.randrange(10, 60)))
    return prompts


def of_trace(name: str) -> Callable[..., list[list[int]]]:
    """The load that a trace is: a block of made-up tokens stands for each of its ids.

    Its first requests are taken, in order, as many as the load has at its scale, and of each what
    fits into the model. Times and answers are not the trace's.

    Args:
        name: A shipped trace, or a file of any form that `kvframe trace info` reads.

    Raises:
        KVFrameError: It cannot be read.
    """

    def prompts(scale: int = 1) -> list[list[int]]:
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder, "rows.jsonl")
            convert(name, ReadOptions(), rows, None)
            with rows.open("rb") as lines:
                told = [msgspec.json.decode(line) for line in islice(lines, REQUESTS * scale)]
        ids = [row["hash_ids"][: LONGEST // BLOCK] for row in told]
        return [[token for one in own for token in _block(one)] for own in ids if own]

    return prompts


@cache
def _block(one: int) -> list[int]:
    return _tokens(random.Random(one), BLOCK)


def answer(number: int, prompt: int) -> list[int]:
    """What request ``number`` answers to a prompt of so many tokens (`engine.sampled`)."""
    places = range(prompt, prompt + OUTPUT)
    return [(place * 7919 + number) % (VOCABULARY - 1) for place in places]


def _tokens(chance: random.Random, n: int) -> list[int]:
    return [chance.randrange(VOCABULARY) for _ in range(n)]


LOADS: Mapping[str, Callable[..., list[list[int]]]] = {
    "families": families,
    "chat": chat,
    "documents": documents,
}
