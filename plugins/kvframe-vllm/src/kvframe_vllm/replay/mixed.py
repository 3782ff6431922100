"""A mixed load: prompts that share a prefix, scans, conversations and agents, all at once."""

from __future__ import annotations

import random

from kvframe_vllm.replay.loads import LONGEST, answer
from kvframe_vllm.replay.workload import VOCABULARY

SHARES = {"families": 0.35, "scans": 0.25, "chat": 0.2, "agents": 0.2}
"""Of the requests."""

OUTPUT = 16
"""Tokens that each request generates."""


def mixed(requests: int = 1600, seed: int = 17) -> list[list[int]]:
    """The prompts in the order of arrival, drawn from the kinds by `SHARES`.

    - families: one of 24 prefixes of 512 tokens (Zipf), and a tail;
    - scans: 256 to 900 tokens that come once;
    - chat: 30 users over one system prompt of 200 tokens; each turn repeats those before;
    - agents: 6 loops over a prompt of 400 tokens, each step of which adds what a tool returned; a
      loop that has become too long begins anew with another task.
    """
    chance = random.Random(seed)

    def tokens(n: int) -> list[int]:
        return [chance.randrange(VOCABULARY) for _ in range(n)]

    prefixes = [tokens(512) for _ in range(24)]
    weights = [1 / (rank + 1) for rank in range(len(prefixes))]
    system, tools = tokens(200), tokens(400)
    users = [list(system) for _ in range(30)]
    agents = [tools + tokens(60) for _ in range(6)]
    prompts: list[list[int]] = []
    for number in range(requests):
        [kind] = chance.choices([*SHARES], [*SHARES.values()])
        if kind == "families":
            [prefix] = chance.choices(prefixes, weights)
            prompts.append(prefix + tokens(chance.randrange(16, 128)))
        elif kind == "scans":
            prompts.append(tokens(chance.randrange(256, 900)))
        else:
            talks, first = (users, system) if kind == "chat" else (agents, tools)
            at = chance.randrange(len(talks))
            if len(talks[at]) > LONGEST - 200:
                talks[at] = first + tokens(60)
            talks[at] = talks[at] + tokens(chance.randrange(20, 120))
            prompts.append(list(talks[at]))
            talks[at] = talks[at] + answer(number, len(talks[at]))
    return prompts
