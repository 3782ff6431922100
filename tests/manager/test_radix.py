"""What only the radix index does: its tree for people to read, and what it refuses."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    Config,
    ConfigError,
    GroupConfig,
    KVCacheManager,
    MMItem,
    UsageError,
)
from kvframe.bench.build import debug_warning

from .helpers import cached, manager


def radix(blocks: int = 16, block_size: int = 4, **cache: Any) -> KVCacheManager:
    return manager(blocks, block_size, index="radix", **cache)


@pytest.mark.scenario("ST18")
def test_what_is_not_inserted_leaves_nothing() -> None:
    kv = radix()
    cached(kv, range(12), write_cache=False)
    assert kv.lookup([*range(12), 99]).tokens == 0
    assert kv.counts().free == 16


@pytest.mark.scenario("ST13")
def test_a_reset_empties_the_tree() -> None:
    kv = radix()
    cached(kv, range(12))
    assert kv.inspect.dump() != ""
    kv.reset_prefix_cache()
    assert (kv.inspect.dump(), kv.counts().free) == ("", 16)


def test_items_part_prompts_with_the_same_tokens() -> None:
    kv = radix()
    prompt = [1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8]
    cat, dog = [MMItem(4, 8, b"cat")], [MMItem(4, 8, b"dog")]
    cached(kv, prompt, mm_items=cat)
    assert kv.lookup([*prompt, 99], mm_items=cat).tokens == 12
    assert kv.lookup([*prompt, 99], mm_items=dog).tokens == 4
    assert kv.lookup([*prompt, 99]).tokens == 4
    kv.check_integrity()


def test_dumps() -> None:
    kv = radix()
    cached(kv, range(12))
    cached(kv, [0, 1, 2, 3, 9, 9, 9, 9])
    kv.pins.pin([0, 1, 2, 3])
    lines = kv.inspect.dump().splitlines()
    assert lines[0].startswith("namespace ")
    assert lines[1:] == [
        "  tokens 0..4: 0 1 2 3; blocks 0; 1 of 1 owned",
        "    tokens 4..12: 4 5 6 7; blocks 1 2; 0 of 2 owned",
        "    tokens 4..8: 9 9 9 9; blocks 3; 0 of 1 owned",
    ]
    dot = kv.inspect.dump("dot")
    assert dot.startswith("digraph radix {")
    assert dot.count(" -> ") == 3
    with pytest.raises(UsageError, match=r"form = .xml."):
        kv.inspect.dump("xml")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="only the radix index has a tree"):
        manager(index="hash").inspect.dump()


def test_a_window_group_is_refused_by_name() -> None:
    config = Config(
        cache=CacheConfig(index="radix"),
        groups=[GroupConfig(name="all"), GroupConfig(name="near", kind="sliding_window", window=4)],
    )
    with pytest.raises(ConfigError, match=r"cache.index.*'near' is none"):
        KVCacheManager(config)


def test_keys_are_made_only_for_the_log() -> None:
    kv = radix(event_log=True)
    prompt = list(range(8))
    cached(kv, prompt)
    events = kv.log.take_events()
    keys = kv.blocks.hash_blocks(prompt)
    stored = events["key"][events["kind"] == 4]
    assert stored.tolist() == keys.tolist()


@pytest.mark.scenario("S18")
def test_a_long_prompt_over_many_nodes_matches_about_as_fast_as_over_one() -> None:
    prompt = np.arange(32_768, dtype=np.uint32)
    asked = np.append(prompt, np.uint32(9))
    fastest: dict[int, float] = {}
    held = {}
    for nodes in (1, 512):
        kv = held[nodes] = radix(5_000, 16)
        # Whatever branches off makes a node of what comes before.
        ends = range(0, 32_768 if nodes > 1 else 0, 32_768 // nodes)
        other = np.full(16, 5, np.uint32)
        for tokens in [prompt, *(np.concatenate([prompt[:end], other]) for end in ends)]:
            grant = kv.allocate(tokens)
            kv.commit(grant.seq, tokens.size)
            kv.release(grant.seq)
        assert len(kv.inspect.dump().splitlines()) == 1 + nodes + (nodes if nodes > 1 else 0)
    # In turns, so that whatever else the machine does slows down both.
    for nodes, kv in list(held.items()) * 2_000:
        start = perf_counter()
        found = kv.lookup(asked).tokens
        fastest[nodes] = min(perf_counter() - start, fastest.get(nodes, 1.0))
        assert found == 32_768
    # A node more is a step to the child that it names, about 1.6 times in all; walking token by
    # token took 200 times. A debug build compares as fast, but steps slower.
    assert fastest[512] < (2 if debug_warning() is None else 10) * fastest[1]
