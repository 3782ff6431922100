"""Made-up workflows that take turns, each a ring of agents with prompts of their own.

``python -m kvframe_kvflow.workflows`` prints what LRU and kvflow hit of them.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import kvframe

BLOCK = 16
PROMPT = 8 * BLOCK
"""Tokens of an agent's fixed prompt."""
SUFFIX = 2 * BLOCK
"""Tokens that each turn adds, never seen again."""


def ring(agents: int) -> list[list[int]]:
    """Agent after agent, and from the last to the first."""
    return [[(agent + 1) % agents] for agent in range(agents)]


def hit_rate(
    eviction: str,
    capacity: int,
    *,
    flows: int = 8,
    agents: int = 8,
    rounds: int = 20,
    seed: int = 0,
) -> float:
    """Hit tokens by prompt tokens; which workflow moves on next is left to the dice."""
    options: dict[str, Any] = {"successors": ring(agents)} if eviction == "kvflow" else {}
    manager = kvframe.KVCacheManager.from_toml(
        cache={"block_size": BLOCK, "capacity": capacity},
        eviction={"policy": eviction, "on_error": "raise", "options": options},
    )
    dice = random.Random(seed)
    turns = [0] * flows
    hits = tokens = 0
    for turn in range(flows * agents * rounds):
        flow = dice.randrange(flows)
        agent = turns[flow] % agents
        turns[flow] += 1
        fixed = np.arange(PROMPT) + (flow * agents + agent) * PROMPT
        fresh = np.arange(SUFFIX) + 10_000_000 + turn * SUFFIX
        prompt = np.concatenate([fixed, fresh])
        grant = manager.allocate(prompt, session=flow + 1, turn=turns[flow], request_class=agent)
        manager.commit(grant.seq, len(prompt))
        manager.release(grant.seq)
        hits += grant.cached_tokens
        tokens += len(prompt)
    manager.check_integrity()
    return hits / tokens


def main() -> None:
    """Print a row a capacity."""
    print("blocks    lru  kvflow")
    for capacity in (128, 256, 512, 1024):
        rates = [hit_rate(eviction, capacity) for eviction in ("lru", "kvflow")]
        print(f"{capacity:6}  {rates[0]:.4f}  {rates[1]:.4f}")


if __name__ == "__main__":
    main()
