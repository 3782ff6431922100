"""What requests ask for their blocks."""

from __future__ import annotations

from kvframe import Keep, Retention, TokenRange

from .dice import Dice

PRIORITIES = [0, 20, 34, 35, 35, 80, 100]


def keep(dice: Dice) -> Keep:
    """For ever or for a time, at the end of which it changes again."""
    duration = dice.below(12) if dice.one_in(2) else None
    linear = dice.one_in(3)
    return Keep(
        dice.pick(PRIORITIES), duration, dice.pick(PRIORITIES), "linear" if linear else "step"
    )


def retention(dice: Dice) -> Retention | None:
    """Nothing, a head, a head and what comes after it, or all."""
    match dice.below(4):
        case 0:
            return None
        case 1:
            return Retention([TokenRange(0, 1 + dice.below(8), keep(dice))])
        case 2:
            at = 1 + dice.below(8)
            ranges = [TokenRange(0, at, keep(dice)), TokenRange(at, None, keep(dice))]
            return Retention(ranges, keep(dice))
        case _:
            return Retention([TokenRange(0, None, keep(dice))], keep(dice))
