"""Every history of a few operations, with each of its points failing in each way, and long ones.

Every point fails in every way in histories of up to three operations behind each of `BEFORE` in
``make test-all``, of one in ``make test``; in longer ones, some do. ``-s`` prints the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from ..amounts import ALL, amount, first_seed
from .rig import BEFORE, OPERATIONS, run
from .seams import KINDS

LENGTH = 5 if ALL else 2
LONG = amount(4, 300, "KVFRAME_FAULTS")

pytestmark = pytest.mark.filterwarnings("ignore:.*failing:RuntimeWarning")


def histories(length: int, before: str) -> Iterator[tuple[str, ...]]:
    """Those of so many operations in which every operation has something to do."""
    return (one for one in product(OPERATIONS, repeat=length) if _fits((*BEFORE[before], *one)))


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
    return told


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("length", range(1, LENGTH + 1))
def test_whatever_fails_once_the_engine_goes_on(length: int, before: str) -> None:
    exhaustive = length <= (3 if ALL else 1)
    dice = None if exhaustive else Random(length)
    tried = [*histories(length, before)]
    if length > 4:
        tried = tried[::20]
    told = Counter[str]()
    for history in tried:
        told += all_points(history, dice, before)
    way = "all" if exhaustive else "some"
    print(
        f"{before}, {len(tried)} histories of {length}, {way} {told.total()} faults: {dict(told)}"
    )


def test_the_same_in_long_histories() -> None:
    dice, told = Random(first_seed() + 5), Counter[str]()
    for _ in range(LONG):
        history = ["begin 0", *(dice.choice([*OPERATIONS]) for _ in range(40))]
        told += all_points(history, dice)
    print(f"{LONG} histories of 41, {told.total()} faults: {dict(told)}")
