"""On streams of single blocks, misses are those of libcachesim's policy of that name, or it is
known which rule sets the two apart. Its counts are recorded; see ``tests.policies.record``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from perf.zoo import LIBCACHESIM, OPTIONS

from kvframe import _core

from . import rules
from .record import RECORD
from .streams import CAPACITIES, stream, trace

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"

RULES: dict[str, type[rules.Counted]] = {
    "s3-fifo": rules.S3Fifo,
    "slru-lists": rules.Slru,
    "lirs": rules.Lirs,
    "gdsf": rules.Gdsf,
    "lfuda": rules.Lfuda,
}
"""Other rules under the same name: both were written down, and each gives its library's count."""

CLOSE = {"lecar": 0.01, "w-tinylfu": 0.02}
"""Dice, and sketches of another make: as close as that on every stream."""

CELLS = [(name, capacity) for name, row in CAPACITIES.items() for capacity in row]


def recorded(name: str, policy: str, capacity: int) -> int:
    record: dict[str, Any] = json.loads(RECORD.read_text())["streams"][name]
    assert record["accesses"] == len(stream(name))
    return int(record["misses"][policy][str(capacity)])


def ours(name: str, policy: str, capacity: int) -> int:
    got = _core.replay(trace(name), policy, capacity, "trace", OPTIONS.get(policy))
    return int(got["block_accesses"] - got["block_hits"])


@pytest.mark.parametrize(("name", "capacity"), CELLS)
@pytest.mark.parametrize("policy", [name for name in LIBCACHESIM if name not in {*RULES, *CLOSE}])
def test_misses_are_those_of_libcachesim(policy: str, name: str, capacity: int) -> None:
    assert ours(name, policy, capacity) == recorded(name, policy, capacity)


APART = [
    (policy, name, capacity)
    for policy, rule in RULES.items()
    for name, capacity in CELLS
    # Those that look through all blocks at each miss are tried where these are few.
    if name == "skewed" or not issubclass(rule, rules.Ranked)
]


@pytest.mark.parametrize(("policy", "name", "capacity"), APART)
def test_one_rule_makes_the_difference(policy: str, name: str, capacity: int) -> None:
    ids = stream(name)
    assert RULES[policy](capacity, theirs=False).misses(ids) == ours(name, policy, capacity)
    theirs = RULES[policy](capacity, theirs=True).misses(ids)
    assert theirs == recorded(name, policy, capacity)


@pytest.mark.parametrize(("name", "capacity"), CELLS)
@pytest.mark.parametrize("policy", CLOSE)
def test_dice_and_sketches_are_close(policy: str, name: str, capacity: int) -> None:
    theirs = recorded(name, policy, capacity)
    assert abs(ours(name, policy, capacity) - theirs) <= CLOSE[policy] * theirs


def test_the_table_in_the_docs_has_these_numbers() -> None:
    row = re.compile(r"^\| [A-Z]\S* \| `([^`]+)` \| ([\d,]+) \| ([\d,]+) \|(.*)\|$", re.M)
    shown = {policy: (one, other, why) for policy, one, other, why in row.findall(PAGE.read_text())}
    assert list(shown) == list(LIBCACHESIM)
    for policy, (one, other, why) in shown.items():
        counts = ours("skewed", policy, 100), recorded("skewed", policy, 100)
        assert (one, other) == (f"{counts[0]:,}", f"{counts[1]:,}"), policy
        assert bool(why.strip()) == (policy in {*RULES, *CLOSE}), policy
