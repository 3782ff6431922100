"""Every point of every history of a few operations fails in every way; the engine goes on.

``make test-all`` takes all histories of up to three operations behind each of `BEFORE`, ``make
test`` those of one. ``-s`` prints the counts.
Longer ones: test_longer.py, a file of its own so that the two run beside each other.
"""

from __future__ import annotations

import pytest

from ..amounts import ALL
from .histories import cases, histories, told_of

LENGTHS = (1, 2, 3) if ALL else (1,)

pytestmark = pytest.mark.filterwarnings("ignore:.*failing:RuntimeWarning")


@pytest.mark.parametrize(("length", "before", "first"), cases(*LENGTHS))
def test_whatever_fails_once_the_engine_goes_on(length: int, before: str, first: str) -> None:
    told_of([*histories(length, before, first)], before, None)
