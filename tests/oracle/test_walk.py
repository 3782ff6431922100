"""Random calls beside the model, over every policy that serves and kinds of groups."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import replace

import pytest

from ..amounts import first_seed
from .dice import Dice
from .kinds import Kind
from .machine import Setup
from .policies import serving
from .rules_all import WEIGHTS, AllRules
from .watched import uncalled

SEED = first_seed()
SETUPS = [
    Setup(),
    Setup(blocks=24, size=4, kinds=(Kind("full", 4), Kind("sliding_window", 4, 6))),
    Setup(blocks=12, size=2, hash="xxh3-128", null=True),
    Setup(blocks=10, size=3, kinds=(Kind("sliding_window", 3, 4),), reserve=2),
    Setup(
        blocks=32, size=2, kinds=(Kind("full", 2), Kind("full", 2), Kind("sliding_window", 2, 3))
    ),
    Setup(blocks=26, size=4, kinds=(Kind("sliding_window", 4, 9), Kind("full", 4)), reserve=3),
    Setup(blocks=40, size=2, hash="blake3"),
    Setup(blocks=14, size=4, caching=False),
    Setup(blocks=16, size=3, index="radix"),
    Setup(blocks=20, size=2, window=8),
    Setup(blocks=24, size=2, kinds=(Kind("full", 2), Kind("full", 2)), index="radix", reserve=2),
    Setup(blocks=24, size=2, kinds=(Kind("full", 2), Kind("chunked", 2, 4))),
    Setup(blocks=12, size=2, kinds=(Kind("chunked", 2, 6),)),
    Setup(blocks=20, size=2, kinds=(Kind("full", 2), Kind("state", 4, interval=8))),
    Setup(blocks=22, size=2, kinds=(Kind("state", 2, interval=0), Kind("full", 4))),
    Setup(blocks=16, size=2, kinds=(Kind("sink_window", 2, 4, sink=3),), reserve=2),
    Setup(blocks=28, size=2, kinds=(Kind("full", 2), Kind("sink_window", 4, 3, sink=1))),
    Setup(blocks=24, size=2, kinds=(Kind("full", 2), Kind("full", 2, lag=1))),
    Setup(
        blocks=40,
        size=2,
        kinds=(Kind("full", 4), Kind("sliding_window", 2, 5, lag=2), Kind("state", 6)),
    ),
]
SETUPS += [
    Setup(blocks=24, size=2, kinds=(Kind("full", 2), Kind("cross", 2))),
    Setup(
        blocks=40,
        size=2,
        kinds=(Kind("cross", 4), Kind("sliding_window", 2, 5), Kind("full", 4), Kind("cross", 2)),
    ),
]
SETUPS += [
    Setup(blocks=16, size=3, remap=True),
    Setup(blocks=14, size=3, partial=True),
    Setup(
        blocks=24,
        size=3,
        kinds=(Kind("full", 3), Kind("sliding_window", 3, 4)),
        remap=True,
        partial=True,
    ),
    Setup(blocks=16, size=4, index="radix", partial=True),
    Setup(blocks=24, size=3, kinds=(Kind("full", 3), Kind("full", 3)), index="radix", partial=True),
]
SETUPS += [
    Setup(
        blocks=24,
        size=4,
        kinds=(Kind("full", 4), Kind("sliding_window", 4, 6)),
        retains=True,
    ),
    Setup(blocks=20, size=2, kinds=(Kind("sliding_window", 2, 4),), retains=True),
    Setup(blocks=16, size=3, remap=True, retains=True),
    Setup(blocks=20, size=2, kinds=(Kind("full", 2), Kind("chunked", 2, 4)), retains=True),
]
"""Blocks of many retention priorities, in groups that give blocks up and in others."""
OFTEN = {
    "hit": 40,
    "refused": 10,
    "evictions": 30,
    "copies": 1000,
    "joined": 1000,
    "pinned": 2500,
    "short": 1000,
}
"""Once in so many steps at the least: else the walk would test little."""


LENGTH = 150
"""Steps of a walk at the least: shorter ones do not fill their pools."""

seen: Counter[str] = Counter()
called: set[str] = set()
"""What the walks of all policies did."""


def walk(setup: Setup, name: str, steps: int) -> AllRules:
    """One machine; a failure tells the seed and the last calls."""
    dice = Dice.seeded(f"{setup.policy} {name} {SEED}")
    machine = AllRules(setup, dice)
    rules = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
    try:
        for _ in range(steps):
            getattr(machine, dice.pick(rules))()
            machine.done += 1
            machine.check()
        machine.settle_all()
        machine.seen["step"] = machine.done
        machine.seen["refused"] = machine.refusals
        for what in ("evictions", "copies", "duplicates"):
            machine.seen[what] = machine.o.pool.stats.get(what, 0)
    except BaseException as error:
        last = "\n  ".join(machine.trail[-25:])
        error.add_note(f"{setup}, KVFRAME_SEED={SEED}, step {machine.done}:\n  {last}")
        raise
    return machine


@pytest.mark.scenario("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I13", "T5", "T7")
@pytest.mark.scenario("S1", "S2", "ST41", "ST42", "CB-B16", "F26")
@pytest.mark.parametrize("policy", serving())
def test_random_calls_agree_with_the_model(policy: str, steps: int) -> None:
    """A failure prints the seed: run it again with KVFRAME_SEED=..."""
    share = -(-steps // len(serving()))
    # Some setups for each policy, and the next ones for the next policy.
    count = min(max(share // LENGTH, 1), len(SETUPS) // 2)
    first = serving().index(policy) * count
    told = time.monotonic()
    done = 0
    for number in range(first, first + count):
        setup = replace(SETUPS[number % len(SETUPS)], policy=policy)
        machine = walk(setup, str(number % len(SETUPS)), -(-share // count))
        seen.update(machine.seen)
        called.update(machine.called)
        done += machine.done
        if time.monotonic() > told + 30:
            told = time.monotonic()
            print(f"{policy}: {done:,} of {share:,} steps", file=sys.__stderr__, flush=True)
    assert done >= share


def test_the_walks_did_all_there_is_to_do(steps: int) -> None:
    """Every public method was called, and what is rare was not too rare to say anything."""
    if seen["step"] < steps or steps < 10_000:
        pytest.skip("the walks of some policies, or short ones")
    rare = {what: seen[what] for what, times in OFTEN.items() if seen[what] * times < seen["step"]}
    assert not rare, f"hardly ever in {seen['step']} steps: {rare}"
    assert not uncalled(called), uncalled(called)


@pytest.mark.scenario("I10")
def test_the_same_seed_gives_the_same_log() -> None:
    def log() -> list[list[list[int]]]:
        machine = AllRules(SETUPS[1], Dice.seeded(str(SEED)))
        for _ in range(200):
            getattr(machine, machine.dice.pick(list(WEIGHTS)))()
        return [
            [column.tolist() for column in events.values()]
            for log in machine.logs
            for events in [log.events]
        ]

    assert log() == log()
    assert sum(len(columns[0]) for columns in log()) > 100
