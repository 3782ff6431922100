"""Every history of a few operations, with each of its points failing in each way, and long ones.

``make test-all`` lets every point fail in every way in histories of up to three operations behind
each of `BEFORE`, and three draws of point and way in each of the longer ones of `EVERY`;
``make test`` does the first for one operation, the second for two. ``-s`` prints the counts.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from ..amounts import ALL, amount, first_seed
from .rig import BEFORE, OPERATIONS, Rig, run
from .seams import KINDS

LENGTH = 5 if ALL else 2
EXHAUSTIVE = 3 if ALL else 1
EVERY = {4: 4, 5: 100}
"""Of histories of so many operations, one in so many is run: there are 20,337 and 175,221."""
LONG = amount(4, 300, "KVFRAME_FAULTS")

pytestmark = pytest.mark.filterwarnings("ignore:.*failing:RuntimeWarning")


def histories(length: int, before: str, first: str) -> Iterator[tuple[str, ...]]:
    """Those of so many operations in which every operation has something to do."""
    rest = product(OPERATIONS, repeat=length - 1)
    return ((first, *more) for more in rest if _fits((*BEFORE[before], first, *more)))


def _fits(history: Sequence[str]) -> bool:
    running = worked = 0
    last = ""
    for name in history:
        match name:
            case "begin 0" | "begin 1" | "begin 2":
                fits = running < 2
                running += 1
            case "work":
                fits = last != name and running > 0
                worked += 1
            case "idle" | "ahead" | "room":
                fits = last != name and len(history) > 1
            case "finish":
                fits = running > 0
                running -= 1
            case _:  # branch, swap, forget
                fits = worked > 0 and last != "forget"
        if not fits:
            return False
        last = name
    return True


def all_points(
    history: Sequence[str], dice: Random | None = None, before: str = "nothing"
) -> Counter[str]:
    """Let each point of a history fail in each way, or some of them; how many of each seam."""
    told = Counter[str]()
    points = run(history, before=before).passed.total()
    tries = [(at, kind) for at in range(points) for kind in range(KINDS)]
    for at, kind in tries if dice is None else dice.sample(tries, min(3, len(tries))):
        try:
            told[run(history, at, kind, before).failed] += 1
        except BaseException as error:
            error.add_note(f"run({history!r}, {at}, {kind}, {before!r})")
            raise
    gc.collect()
    assert not Rig.alive, f"an engine outlives {history!r} behind {before!r}"
    return told


CASES = [
    (length, before, first)
    for length, before, first in product(range(1, LENGTH + 1), BEFORE, OPERATIONS)
    if any(histories(min(length, 3), before, first))
]


@pytest.mark.parametrize(("length", "before", "first"), CASES)
def test_whatever_fails_once_the_engine_goes_on(length: int, before: str, first: str) -> None:
    exhaustive = length <= EXHAUSTIVE
    dice = None if exhaustive else Random(f"{length} {before} {first}")
    tried = [*histories(length, before, first)][:: EVERY.get(length, 1)]
    told = Counter[str]()
    for history in tried:
        told += all_points(history, dice, before)
    way = "all" if exhaustive else "some"
    counts = f"{way} {told.total()} faults: {dict(told)}"
    print(f"{before}, {len(tried)} histories of {length} from {first!r}, {counts}")


@pytest.mark.parametrize("part", range(4))
def test_the_same_in_long_histories(part: int) -> None:
    dice, told = Random(first_seed() + 5 + part), Counter[str]()
    for _ in range(LONG // 4):
        history = ["begin 0", *(dice.choice([*OPERATIONS]) for _ in range(40))]
        told += all_points(history, dice)
    print(f"{LONG // 4} histories of 41, {told.total()} faults: {dict(told)}")
