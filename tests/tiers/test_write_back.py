"""Write-back: what is about to leave the pool is backed up as far as the host tier has room."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kvframe import TierConfig

from .helpers import BLOCK, Engine, Shelf, below, tables, text


def lazy(pages: int, **more: Any) -> TierConfig:
    """A host tier with the marks that a configuration has if it says none."""
    return TierConfig(name="host", capacity=pages, **tables({"admission": "write-back", **more}))


def used(engine: Engine, tokens: list[int], *, offload: bool = False) -> None:
    """A request from admission to release, which an engine backs up on the way or not."""
    grant = engine.start(tokens)
    engine.settle()
    engine.compute(grant.seq)
    if offload:
        engine.tiers.offload(grant.seq)
    engine.kv.release(grant.seq)


@pytest.mark.scenario("F16")
@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("pages", [1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 24])
def test_a_write_back_tier_keeps_what_it_has_room_for(pages: int, offload: bool) -> None:
    engine = Engine([lazy(pages)], blocks=32)
    one = text(1, 4 * pages + 1)
    used(engine, one, offload=offload)
    assert engine.tiers.lookup(one).tiers == {"host": 0}
    assert engine.tiers.make_room(32) == pages
    assert engine.kv.counts().free == 32
    for _ in range(5):
        engine.tiers.poll()
    assert engine.tiers.lookup(one).tiers == {"host": 4 * pages}
    assert engine.start(one).external_tokens == 4 * pages
    engine.settle()
    engine.tiers.check_integrity()


@pytest.mark.scenario("F16")
@pytest.mark.parametrize("pages", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("seed", range(4))
def test_make_room_loses_nothing_that_the_tier_has_room_for(seed: int, pages: int) -> None:
    """Random prompts that share beginnings; room is made bit by bit, and never by a loss."""
    dice = Random(seed)
    engine = Engine([lazy(pages, eviction=dice.choice(["lru", "arc", "fifo"]))], blocks=48)
    prompts: list[list[int]] = []
    for at in range(6):
        root = dice.choice(prompts)[: 4 * dice.randrange(3)] if prompts else []
        prompts.append(root + text(10 + at, 1 + 4 * dice.randrange(1, 4)))
    left = pages
    known: set[bytes] = set()
    for prompt in prompts:
        fresh = {key.tobytes() for key in engine.kv.blocks.hash_blocks(prompt)} - known
        if len(fresh) > left:
            continue
        known |= fresh
        left -= len(fresh)
        used(engine, prompt)
    while engine.kv.counts().free < 48:
        before = engine.kv.counts().free
        engine.tiers.make_room(before + dice.randrange(1, 5))
        assert engine.kv.counts().free > before
        if dice.random() < 0.5:
            engine.tiers.poll()
    engine.settle()
    assert {tuple(key) for key, _ in engine.tiers.host.index.stored()} == {
        tuple(key) for key in _keys(known)
    }
    assert engine.tiers.stats()["host"]["evicted"] == 0
    engine.tiers.check_integrity()


def _keys(known: set[bytes]) -> list[list[int]]:
    import numpy as np

    return [np.frombuffer(key, np.uint64).tolist() for key in known]


@pytest.mark.scenario("F16")
@pytest.mark.parametrize("pages", [1, 2, 3, 4])
def test_what_the_tier_has_no_room_for_stays_in_the_pool(pages: int) -> None:
    engine = Engine([lazy(pages)], blocks=16)
    one = text(1, 4 * (pages + 2) + 1)
    used(engine, one)
    engine.tiers.make_room(16)
    assert engine.tiers.lookup(one).tiers == {"host": 4 * pages}
    assert engine.tiers.lookup(one).pool == 4 * (pages + 2)


@pytest.mark.scenario("F16")
@pytest.mark.parametrize("pages", [2, 4, 8])
def test_small_tiers_over_a_store_lose_nothing_either(pages: int) -> None:
    shelf = Shelf()
    engine = Engine([lazy(pages, when_full="refuse"), below()], stores=[shelf], blocks=48)
    texts = [text(seed, 4 * pages + 1) for seed in range(4)]
    for one in texts:
        used(engine, one)
    for _ in range(100):
        engine.tiers.make_room(48)
        engine.tiers.poll()
    assert engine.kv.counts().free == 48
    engine.settle()
    for one in texts:
        assert engine.tiers.lookup(one).best == BLOCK * pages
    assert engine.tiers.stats()["moved"].get("dropped", 0) == 0


@pytest.mark.scenario("F16")
def test_the_keys_of_a_block_in_the_pool_are_those_of_its_prompt() -> None:
    engine = Engine([lazy(4)], blocks=16, options={"weight_version": "tiny@1"})
    one = text(1, 17)
    used(engine, one)
    order = engine.kv.inspect.eviction_order().tolist()
    blocks, keys = engine.kv.blocks.prefix_of(order[0])
    assert keys.tolist() == engine.kv.blocks.hash_blocks(one).tolist()
    assert sorted(blocks.tolist()) == sorted(order)
    free = next(block for block in range(16) if block not in order)
    assert [len(one) for one in engine.kv.blocks.prefix_of(free)] == [0, 0]
    radix = Engine([lazy(4)], blocks=16, options={"index": "radix"})
    used(radix, one)
    assert radix.tiers.make_room(16) == 0  # its blocks have no keys: `offload` tells them
    used(radix, text(2, 9), offload=True)
    assert radix.tiers.make_room(16) == 2
    assert radix.tiers.lookup(text(2, 9)).tiers == {"host": 8}
