"""100,000 calls beside the model, over every policy that serves and kinds of groups."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

import pytest

from .dice import Dice
from .machine import Setup
from .policies import serving
from .rules_step import WEIGHTS, AllRules

SEED = int(os.environ.get("KVFRAME_SEED", "20261"))
SETUPS = [
    Setup(),
    Setup(blocks=24, size=4, groups=(("full", 0), ("sliding_window", 6))),
    Setup(blocks=12, size=2, hash="xxh3-128", null=True),
    Setup(blocks=10, size=3, groups=(("sliding_window", 4),), reserve=2),
    Setup(blocks=32, size=2, groups=(("full", 0), ("full", 0), ("sliding_window", 3))),
    Setup(blocks=20, size=4, groups=(("sliding_window", 9), ("full", 0)), reserve=3),
    Setup(blocks=40, size=2, hash="blake3"),
    Setup(blocks=14, size=4, caching=False),
]
ROUND = 250
"""Steps of one machine; then everything ends and another begins."""


def walk(setup: Setup, seed: int, steps: int) -> AllRules:
    """One machine; a failure tells the seed and the last calls."""
    dice = Dice.seeded(f"{setup.policy} {seed}")
    machine = AllRules(setup, dice)
    rules = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
    try:
        for _ in range(steps):
            getattr(machine, dice.pick(rules))()
            machine.done += 1
            machine.check()
        machine.settle_all()
    except BaseException as error:
        last = "\n  ".join(machine.trail[-25:])
        error.add_note(f"{setup}, KVFRAME_SEED={seed}, step {machine.done}:\n  {last}")
        raise
    return machine


@pytest.mark.scenario("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I13", "T5", "T7")
@pytest.mark.scenario("S1", "S2", "ST41", "CB-B16")
@pytest.mark.parametrize("policy", serving())
def test_random_calls_agree_with_the_model(policy: str, steps: int) -> None:
    """A failure prints the seed: run it again with KVFRAME_SEED=..."""
    share = -(-steps // len(serving()))
    told = time.monotonic()
    done = hits = refusals = evictions = 0
    while done < share:
        seed = SEED + done // ROUND
        setup = replace(SETUPS[seed % len(SETUPS)], policy=policy)
        machine = walk(setup, seed, min(ROUND, share - done))
        done += machine.done
        hits += machine.hits_seen
        refusals += machine.refusals
        evictions += machine.o.pool.stats.get("evictions", 0)
        if time.monotonic() > told + 30:
            told = time.monotonic()
            print(f"{policy}: {done:,} of {share:,} steps", file=sys.__stderr__, flush=True)
    assert done == share
    assert min(hits, refusals, evictions) * 100 >= done, (hits, refusals, evictions)


@pytest.mark.scenario("I10")
def test_the_same_seed_gives_the_same_log() -> None:
    def log() -> list[list[int]]:
        machine = AllRules(SETUPS[1], Dice.seeded(str(SEED)))
        machine.kv.take_events()
        for _ in range(200):
            getattr(machine, machine.dice.pick(list(WEIGHTS)))()
        return [column.tolist() for column in machine.kv.take_events().values()]

    assert log() == log()
    assert len(log()[0]) > 100
