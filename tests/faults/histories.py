"""Histories of a few operations, and what fails in them, point after point."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

from .rig import BEFORE, OPERATIONS, Rig, run
from .seams import KINDS


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


def cases(*lengths: int) -> list[tuple[int, str, str]]:
    """Lengths, what was before, and the first operation, where there is such a history."""
    every = product(lengths, BEFORE, OPERATIONS)
    return [one for one in every if any(histories(*one))]


def told_of(tried: Sequence[Sequence[str]], before: str, dice: Random | None) -> None:
    """`all_points` of each; prints the counts."""
    told = Counter[str]()
    for history in tried:
        told += all_points(history, dice, before)
    way = "all" if dice is None else "some"
    print(f"{before}, {len(tried)} histories, {way} {told.total()} faults: {dict(told)}")
