"""In the pool: all pairs of namespaces, by every way in and every question, under each index.

``make test-all`` does all of it, ``make test`` every way, question and pair of namespaces, but not
each pair by each way. ``pytest -s`` prints what was counted.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import GroupConfig, TenantConfig

from ..amounts import ALL
from .pool_paths import NOT_IN, PROMPT, QUESTIONS, UNSETTLED, WAYS
from .spaces import SPACES
from .world import World, common

WINDOW = GroupConfig(name="w", kind="sliding_window", window=6)
POOLS: dict[str, dict[str, Any]] = {
    "sha256": {},
    "blake3": {"hash": "blake3"},
    "xxh3": {"hash": "xxh3-128"},
    "radix": {"index": "radix"},
    "radix, xxh3": {"index": "radix", "hash": "xxh3-128", "partial_hits": True},
    "partial blocks": {"partial_hits": True},
    "duplicates kept": {"keep_duplicates": True},
    "duplicates remapped": {"remap_duplicates": True, "partial_hits": True},
    "a window": {"groups": [GroupConfig(name="a"), WINDOW]},
    "floors": {"tenants": [TenantConfig(name="a", floor=8), TenantConfig(name="b", quota=20)]},
}
RARE = 1 if ALL else 15
"""One writer in so many, another one by each way and pool."""


@pytest.mark.scenario("V16", "V18", "F21")
@pytest.mark.parametrize("pool", POOLS)
def test_nobody_is_given_a_block_of_another_namespace(pool: str) -> None:
    pairs, asked, read = set(), 0, 0
    for way, leave in WAYS.items():
        for writer in writers(pool, way):
            world = World(**POOLS[pool])
            leave(world, writer)
            for reader in SPACES:
                told = question_all(world, way, writer, reader)
                own = told.pop("join") if way in UNSETTLED else max(told.values())
                assert reader != writer or own, (way, writer)
                pairs.add((writer, reader))
                asked += len(told)
            for seq in world.running:
                world.check(seq)
            world.kv.check_integrity()
            read += world.read
    print(f"{pool}: {len(pairs)} pairs, {len(WAYS)} ways, {asked} questions, {read} tokens read")


def writers(pool: str, way: str) -> list[str]:
    """The namespaces that write in this way, in turn: together they are all of them."""
    if way in NOT_IN.get(pool, ()):
        return []
    turn = [*POOLS].index(pool) + [*WAYS].index(way)
    return [*SPACES][turn % RARE :: RARE]


def test_every_namespace_writes_somewhere() -> None:
    """So all pairs are tried, by some way in some pool at least."""
    assert {one for pool in POOLS for way in WAYS for one in writers(pool, way)} == set(SPACES)


def question_all(world: World, way: str, writer: str, reader: str) -> dict[str, int]:
    """Ask every question from another namespace; the tokens that each was given."""
    blind = way == "published by hand"  # nobody wrote these bytes
    keyless = world.kv.inspect.options()["index"] == "radix"
    left_out = {question for question in QUESTIONS if blind and question != "find"}
    left_out |= {"find"} if keyless else set()
    most = len(PROMPT) + 1 if reader == writer else common(writer, reader, PROMPT, world.public)
    told = {}
    for question in QUESTIONS.keys() - left_out:
        told[question] = QUESTIONS[question](world, reader, [*PROMPT, 3])
        assert told[question] <= most, (way, question, writer, reader)
    return told
