"""Block events: what a router that mirrors the cache is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import GroupConfig, KVCacheManager, MMItem
from kvframe.stats import AllBlocksCleared, BlockEvents, BlockRemoved, BlockStored
from tests.manager.helpers import cached, manager

from ..oracle.machine import Setup
from .walk import Walk


def pair(blocks: int = 32, **options: Any) -> tuple[KVCacheManager, BlockEvents]:
    reader = {k: options.pop(k) for k in ("per_block", "reused") if k in options}
    return manager(blocks, event_log=True, **options), BlockEvents(4, **reader)


def keys(kv: KVCacheManager, tokens: Any, **space: Any) -> list[bytes]:
    return [row.tobytes() for row in kv.blocks.hash_blocks(tokens, **space)]


@pytest.mark.scenario("VT16", "VT66", "T26", "V15")
@pytest.mark.parametrize("blocks", [2, 3, 10])
def test_stored_removed_cleared(blocks: int) -> None:
    kv, reader = pair(blocks)
    tokens = list(range(4 * blocks))
    cached(kv, tokens)
    (stored,) = reader.feed(kv.log.take())
    assert isinstance(stored, BlockStored)
    assert list(stored.keys) == keys(kv, tokens)
    assert stored.token_ids.tolist() == tokens
    assert (stored.parent_key, stored.block_size, stored.start, stored.group) == (None, 4, 0, 0)
    assert reader.feed(kv.log.take()) == []
    cached(kv, [9] * 4 * blocks)
    gone = reader.feed(kv.log.take())
    assert gone[:-1] == [BlockRemoved(stored.keys[::-1])]
    assert isinstance(gone[-1], BlockStored)
    kv.reset_prefix_cache()
    assert reader.feed(kv.log.take()) == [AllBlocksCleared()]
    assert reader.cached() == []


@pytest.mark.scenario("V15", "F29")
def test_a_group_of_larger_blocks_is_told_by_the_keys_that_are_stored() -> None:
    groups = [GroupConfig(name="a"), GroupConfig(name="wide", block_size=12)]
    kv, reader = manager(32, event_log=True, groups=groups), BlockEvents([4, 12])
    cached(kv, range(25))
    told = [event for event in reader.feed(kv.log.take()) if isinstance(event, BlockStored)]
    sizes = {event.group: (event.block_size, len(event.keys)) for event in told}
    assert sizes == {0: (4, 6), 1: (12, 2)}
    blocks = kv.inspect.snapshot().blocks
    stored = {row.tobytes() for row in blocks.key[blocks.key.any(axis=1)]}
    assert {key for event in told for key in event.keys} == stored
    assert [event.token_ids.tolist() for event in told if event.group] == [list(range(24))]


def test_a_cleared_router_is_told_of_what_comes_after() -> None:
    kv, reader = pair()
    cached(kv, range(8))
    kv.reset_prefix_cache()
    cached(kv, range(8))
    events = reader.feed(kv.log.take())
    assert [type(event) for event in events] == [BlockStored, AllBlocksCleared, BlockStored]
    assert len(reader.cached()) == 2


@pytest.mark.scenario("ST29")
def test_one_event_a_page_where_asked_and_none_when_off() -> None:
    kv, reader = pair(per_block=True)
    cached(kv, range(11))
    events = reader.feed(kv.log.take())
    assert [len(e.token_ids) for e in events if isinstance(e, BlockStored)] == [4, 4]
    assert [e.parent_key for e in events if isinstance(e, BlockStored)] == [
        None,
        keys(kv, range(11))[0],
    ]


@pytest.mark.scenario("V13")
def test_removed_is_told_when_the_last_copy_is_gone() -> None:
    kv, reader = pair(8)
    a, b = kv.allocate(range(5)).seq, kv.allocate(range(5)).seq
    kv.commit(a, 5)
    kv.commit(b, 5)
    assert kv.stats.counters()["duplicates"] == 1
    (stored,) = reader.feed(kv.log.take())
    kv.release(a)
    assert reader.feed(kv.log.take()) == [], "a copy is left"
    kv.release(b)
    kv.evict_until(8)
    assert isinstance(stored, BlockStored)
    assert reader.feed(kv.log.take()) == [BlockRemoved(stored.keys)]


@pytest.mark.scenario("VT17")
def test_the_parent_is_that_of_the_prompt_where_a_window_left_none() -> None:
    kv, reader = pair(groups=[GroupConfig(name="w", kind="sliding_window", window=4)])
    seq = kv.allocate(range(4), max_seq_len=16).seq
    for upto in (4, 8, 12):
        kv.commit(seq, upto)
        if upto < 12:
            kv.append(seq, range(upto, upto + 4))
    events = reader.feed(kv.log.take())
    (stored,) = [e for e in events if isinstance(e, BlockStored)]
    assert list(stored.keys) == keys(kv, range(12))
    kv.append(seq, range(12, 16))
    kv.commit(seq, 16)
    (last,) = reader.feed(kv.log.take())
    assert isinstance(last, BlockStored)
    assert last.parent_key == keys(kv, range(12))[-1]


@pytest.mark.scenario("VT18", "VT21", "T29", "I15")
def test_adapter_salt_and_items_come_along_and_the_session_is_no_identity() -> None:
    kv, reader = pair()
    seen = {}
    spaces: list[dict[str, Any]] = [
        {},
        {"cache_salt": "s1"},
        {"cache_salt": "s2"},
        {"lora_name": "lora"},
    ]
    for session, space in enumerate(spaces, 1):
        cached(kv, range(9), session=session, **space)
        (event,) = reader.feed(kv.log.take())
        assert isinstance(event, BlockStored)
        assert (event.salt, event.adapter) == (
            space.get("cache_salt", ""),
            space.get("lora_name", ""),
        )
        assert event.session == session
        seen[event.keys] = event
    assert len({key for run in seen for key in run}) == 8
    assert kv.allocate(range(9), session=77, cache_salt="s1").cached_tokens == 8
    assert reader.feed(kv.log.take()) == []
    cached(kv, range(50, 62), mm_items=[MMItem(2, 6, b"cat")])
    (event,) = reader.feed(kv.log.take())
    assert isinstance(event, BlockStored)
    assert event.extras == (MMItem(2, 6, b"cat"),)


@pytest.mark.scenario("VT10", "I15")
def test_an_item_goes_with_the_tokens_that_are_cut() -> None:
    """What comes instead is plain text, and a router must find it by that."""
    kv, reader = pair()
    seq = kv.allocate(range(50, 62), mm_items=[MMItem(1, 9, b"cat"), MMItem(10, 11, b"dog")]).seq
    kv.commit(seq, 6)
    fork = kv.fork(seq, upto=0)
    kv.truncate(seq, 6)
    kv.append(seq, [1] * 6)
    kv.append(fork, [2] * 4)
    kv.commit(seq, 12)
    kv.commit(fork, 4)
    told = [event for event in reader.feed(kv.log.take()) if isinstance(event, BlockStored)]
    items = {event.token_ids[0]: event.extras for event in told}
    assert items == {50: (MMItem(1, 9, b"cat"),), 54: (MMItem(1, 6, b"cat"),), 2: ()}
    assert told[-1].keys == tuple(keys(kv, [2] * 4))


@pytest.mark.scenario("VT19", "VT20")
def test_events_name_their_group() -> None:
    groups = [GroupConfig(name="a"), GroupConfig(name="b")]
    kv, reader = pair(8, groups=groups)
    cached(kv, range(8))
    stored = [e for e in reader.feed(kv.log.take()) if isinstance(e, BlockStored)]
    assert [(e.group, len(e.keys)) for e in stored] == [(0, 2), (1, 2)]
    assert stored[0].keys != stored[1].keys
    kv.evict_until(8)
    removed = [e for e in reader.feed(kv.log.take()) if isinstance(e, BlockRemoved)]
    assert sorted(e.group for e in removed for _ in e.keys) == [0, 0, 1, 1]
    assert {key for e in removed for key in e.keys} == {key for e in stored for key in e.keys}


@pytest.mark.scenario("VT22")
def test_what_is_cached_is_told_again_where_asked() -> None:
    kv, reader = pair(reused=True)
    cached(kv, range(9))
    (first,) = reader.feed(kv.log.take())
    kv.allocate(range(9))
    (again,) = reader.feed(kv.log.take())
    assert isinstance(first, BlockStored)
    assert isinstance(again, BlockStored)
    assert (again.keys, again.origin, first.origin) == (first.keys, "reused", "new")
    assert np.array_equal(again.token_ids, first.token_ids)
    kv.allocate([77] * 9)
    assert reader.feed(kv.log.take()) == [], "nothing was found, nothing is told"
    quiet, plain = pair()
    cached(quiet, range(9))
    plain.feed(quiet.log.take())
    quiet.allocate(range(9))
    assert plain.feed(quiet.log.take()) == []
    assert [e.start for e in plain.cached() if isinstance(e, BlockStored)] == [0, 1]


@pytest.mark.scenario("T26", "V13")
@pytest.mark.parametrize("seed", range(3))
def test_a_mirror_fed_with_events_holds_what_the_cache_holds(seed: int) -> None:
    """Parents come before children, and what is removed was there."""
    walk, reader = Walk(Setup(blocks=24), f"mirror {seed}"), BlockEvents(4)
    kv, mirror = walk.kv, dict[bytes, bytes | None]()
    for _ in range(400):
        for event in reader.feed(walk.one()):
            match event:
                case AllBlocksCleared():
                    mirror.clear()
                case BlockRemoved():
                    for key in event.keys:
                        del mirror[key]
                case BlockStored():
                    parents = [event.parent_key, *event.keys[:-1]]
                    for key, parent in zip(event.keys, parents, strict=True):
                        assert key not in mirror
                        assert parent is None or parent in mirror
                        mirror[key] = parent
        blocks = kv.inspect.snapshot().blocks
        held = {row.tobytes() for row in blocks.key[blocks.key.any(axis=1)]}
        assert set(mirror) == held
        told = [key for e in reader.cached() if isinstance(e, BlockStored) for key in e.keys]
        assert sorted(told) == sorted(held)
