"""Tiers that are left alone come to rest, however small they are for one another."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from kvframe import BusyError
from tests.amounts import amount

from .helpers import BLOCK, Engine, Shelf, below, host, text

POLLS = 500
"""More than any of these needs to move all that it has several times."""


def small(random: Random) -> dict[str, Any]:
    high = random.choice([0.5, 0.8, 0.95])
    return {
        "high": high,
        "low": random.choice([0.2, high]),
        "in_flight": random.choice([1, 3, 4096]),
        "admission": random.choice(["always", "write-back", "selective"]),
        "eviction": random.choice(["lru", "fifo", "arc", "lfu"]),
        "backed_first": random.random() < 0.5,
    }


@pytest.mark.parametrize("seed", range(amount(12, 400)))
def test_nothing_moves_for_ever_while_nobody_asks(seed: int) -> None:
    random = Random(seed)
    refuses = {"when_full": "refuse"} if random.random() < 0.3 else {}
    first = host(random.randint(6, 16), **small(random), **refuses)
    stores = [below(random.randint(2, 24), name=f"below{at}", **small(random))
              for at in range(random.randint(1, 2))]  # fmt: skip
    made = Engine([first, *stores], stores=[Shelf() for _ in stores], dice=random)
    for _ in range(60):
        made.settle()
        seq = made.start(text(random.randint(0, 6), random.randint(2, 6 * BLOCK))).seq
        made.settle()
        made.compute(seq)
        with suppress(BusyError):  # with when_full = "refuse"
            made.tiers.offload(seq)
        made.kv.release(seq)
    seen = []
    for _ in range(POLLS):
        made.tiers.poll()
        seen.append(made.tiers.stats()["moved"])
    assert seen[-1] == seen[POLLS // 2]
    made.tiers.check_integrity()
