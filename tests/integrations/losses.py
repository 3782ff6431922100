"""What each built-in policy goes by, found by trying: leave a fact out, and see what is evicted.

``python -m tests.integrations.losses`` writes the table into docs/how-to/other-engines.md.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from kvframe.flat import Access, TierPolicy, resolve
from kvframe.integrations.plug_points import FACTS, PLUG_POINTS
from kvframe.policies.builtin import BUILTIN

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-engines.md"
BEGIN = "<!-- written by: python -m tests.integrations.losses -->\n"
END = "<!-- to here -->\n"

CAPACITY, STEPS, LOADS = 12, 260, 3
TRIED = [fact for fact in FACTS if fact != "parents"]

BY_PARENTS = frozenset({"foresight", "partial-node-random-compute", "workload"})
"""Policies that look at the block before one; no plug point tells which that is."""

resolved = cache(resolve)


@cache
def policies() -> dict[str, frozenset[str]]:
    """The facts that each policy goes by; those that a replay alone can run know the next use."""
    return {
        found.name: frozenset({"next_use"} if found.replay_only else needs(found.name))
        for found in BUILTIN
        if found.name != "infinite"
    }


def needs(policy: str) -> set[str]:
    """Facts without which it evicts in another order.

    Blocks come and are used one at a time, so that a place in the prompt breaks no ties.
    """
    whole = [deaths(policy, load) for load in range(LOADS)]
    found = {
        fact
        for fact in TRIED
        if any(deaths(policy, load, fact) != whole[load] for load in range(LOADS))
    }
    return found | {"parents"} if policy in BY_PARENTS else found


def deaths(policy: str, load: int, without: str = "") -> list[str]:
    """Which block is evicted, in order, of a random load in which one fact is not told."""
    dice = random.Random(load)
    tier: TierPolicy[str] = TierPolicy(resolved(policy), CAPACITY)
    dead: list[str] = []
    hot = [f"hot{i}" for i in range(2 * CAPACITY)]
    for step in range(STEPS):
        key = dice.choice(hot) if dice.random() < 0.9 else str(step)
        told = {
            "depth": dice.randrange(4_000),
            "tokens": dice.randrange(1, 60_000),
            "session": dice.randrange(4),
            "turn": dice.randrange(9),
            "request_class": dice.randrange(4),
            "priority": dice.randrange(-3, 4),
            "next_use": dice.randrange(9_000),
        }
        if without:
            told[without] = 0
        depth, outlook = told.pop("depth"), told.pop("next_use")
        use = Access(**told, next_use=[outlook])
        if key in tier:
            tier.hit([key], use)
            continue
        if len(tier) == CAPACITY:
            dead += tier.victims(1) or []
        tier.on_miss([key])
        tier.insert(key, depth=depth, use=use)
        tier.release([key])
    return dead


def table() -> str:
    """The policies that lose something at one of the plug points, and what."""
    lines = [
        f"| policy | goes by | {' | '.join(seam.name for seam in PLUG_POINTS)} |",
        "| --- | --- |" + " --- |" * len(PLUG_POINTS),
    ]
    same = []
    for policy, facts in policies().items():
        if not facts:
            same.append(f"`{policy}`")
            continue
        told = ", ".join(FACTS[fact] for fact in FACTS if fact in facts)
        cells = []
        for seam in PLUG_POINTS:
            lost = [FACTS[fact] for fact in seam.lost(facts)]
            asked = [FACTS[fact] for fact in FACTS if fact in facts & seam.asked]
            parts = [f"loses {', '.join(lost)}"] if lost else []
            parts += [f"if told: {', '.join(asked)}"] if asked else []
            cells.append("; ".join(parts) or "all of it")
        lines.append(f"| `{policy}` | {told} | {' | '.join(cells)} |")
    lines += [
        "",
        f"By recency, uses and ghosts alone, which are told everywhere: {', '.join(same)}.",
    ]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with the table in its place."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
