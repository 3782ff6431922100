"""Some points of longer histories fail in some way: three draws of each history that is taken.

``make test-all`` takes histories of four and of five operations, as many as `EVERY` says, and drawn
ones of 41; ``make test`` all of two operations, and fewer drawn ones. ``-s`` prints the counts.
"""

from __future__ import annotations

from random import Random

import pytest

from ..amounts import ALL, amount, first_seed
from .histories import cases, histories, told_of
from .rig import OPERATIONS

EVERY = {4: 4, 5: 100} if ALL else {2: 1}
"""Of histories of so many operations, one in so many: of four there are 20,337, of five 175,221."""
PARTS = 4
LONG = amount(4, 300, "KVFRAME_FAULTS") // PARTS

pytestmark = pytest.mark.filterwarnings("ignore:.*failing:RuntimeWarning")


@pytest.mark.parametrize(("length", "before", "first"), cases(*EVERY))
def test_whatever_fails_in_longer_ones(length: int, before: str, first: str) -> None:
    tried = [*histories(length, before, first)][:: EVERY[length]]
    told_of(tried, before, Random(f"{length} {before} {first}"))


@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_in_long_histories(part: int) -> None:
    dice = Random(first_seed() + 5 + part)
    drawn = [["begin 0", *(dice.choice([*OPERATIONS]) for _ in range(40))] for _ in range(LONG)]
    told_of(drawn, "nothing", dice)
