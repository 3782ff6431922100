"""Beside the pool: routers and the events that feed them, slots, an engine's own tree."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import CacheConfig, Config, KVCacheManager, RouterIndex, SlotCache
from kvframe.prefix_tree import PrefixTree
from kvframe.request import MMItem
from kvframe.router import routing_salt
from kvframe.stats import BlockEvents
from kvframe.wire import apply, encode, hashes_of
from kvframe.wire.convert import wire_event

from .spaces import SPACES

PROMPT = list(range(100, 113))
ALIKE = {"image a", "a shorter image"}
LOOKALIKE = routing_salt("a", "")


def events_of(kv: KVCacheManager, worker: int, index: RouterIndex, *, token_ids: bool) -> None:
    """What a manager announces, as bytes, into a router's index."""
    told = BlockEvents(4).feed(kv.log.take())
    apply(index, worker, encode([wire_event(e, token_ids=token_ids, grouped=False) for e in told]))


@pytest.mark.scenario("V16", "V18")
def test_a_router_names_no_worker_for_blocks_of_another_namespace() -> None:
    spaces = {**SPACES, "salt that looks like a tenant's": {"cache_salt": LOOKALIKE}}
    cache = CacheConfig(block_size=4, capacity=16, event_log=True)
    for one in spaces:
        kv = KVCacheManager(Config(cache=cache))
        by_tokens, by_hashes = RouterIndex(4), RouterIndex()
        seq = kv.allocate(PROMPT, **spaces[one]).seq
        kv.commit(seq, len(PROMPT))
        log = BlockEvents(4).feed(kv.log.take())
        for index, ids in ((by_tokens, True), (by_hashes, False)):
            index.add_worker(1)
            events = [wire_event(event, token_ids=ids, grouped=False) for event in log]
            apply(index, 1, encode(events))
        for other in spaces:
            asked = dict(spaces[other])
            if asked.get("cache_salt") == LOOKALIKE:  # as kvframe's own events have it
                asked["cache_salt"] = routing_salt("", LOOKALIKE)
            keys = kv.blocks.hash_blocks(PROMPT, **spaces[other])
            found = by_tokens.match_tokens(PROMPT, **asked), by_hashes.match_hashes(hashes_of(keys))
            if {one, other} == ALIKE:  # events say where an item begins, and not where it ends
                found = found[1], found[1]
            assert [len(reach) for reach in found] == [int(other == one)] * 2, (one, other)
    print(f"router: {len(spaces) ** 2} pairs, by tokens and by hashes")


@pytest.mark.scenario("V16", "V18")
def test_slots_of_another_namespace_are_not_found() -> None:
    known = {"cache_salt", "lora_name"}
    spaces = {name: space for name, space in SPACES.items() if space.keys() <= known}
    slots = SlotCache(4, 32)
    for one in spaces:
        slots.reset_prefix_cache()
        seq = slots.allocate(PROMPT, **spaces[one]).seq
        slots.commit(seq, len(PROMPT))
        slots.release(seq)
        for other in spaces.keys() - {one}:
            assert slots.lookup(PROMPT, **spaces[other]) == 0
            assert slots.pin(PROMPT, **spaces[other]) is None
            other_seq = slots.allocate(PROMPT, **spaces[other])
            assert other_seq.cached_tokens == 0
            slots.release(other_seq.seq)
        assert slots.lookup(PROMPT, **spaces[one]) > 0
    slots.set_weight_version("w2")
    assert [slots.lookup(PROMPT, **space) for space in spaces.values()] == [0] * len(spaces)


def test_a_tree_of_another_namespace_is_not_found() -> None:
    texts = (None, "", "a", "b", "ab", "a\0", "a" * 300, "é", "e\u0301")
    spaces = [(extra, salt) for extra in texts for salt in texts]
    tree = PrefixTree.named("lru", 1)
    for one in spaces:
        tree.clear()
        tree.store(PROMPT, *one)
        for other in spaces:
            found = tree.find(PROMPT, *other).tokens
            assert found == (len(PROMPT) if one == other else 0), (one, other)


def test_the_salt_of_events_says_no_more_than_it_must() -> None:
    assert routing_salt("", "s") == "s"
    hidden = routing_salt("acme", "s", b"audio")
    assert hidden.startswith("kvframe:")
    assert "acme" not in hidden
    given = [("a", ""), ("", LOOKALIKE), ("", "a"), ("a", "b"), ("ab", ""), ("a", "b\0")]
    assert len({routing_salt(*one) for one in given}) == len(given)


def test_items_beside_a_tenant_match() -> None:
    kv = KVCacheManager(Config(cache=CacheConfig(block_size=4, capacity=16, event_log=True)))
    apart: dict[str, Any] = {"tenant": "a", "mm_items": [MMItem(1, 3, b"cat")], "lora_name": "x"}
    seq = kv.allocate(PROMPT, **apart).seq
    kv.commit(seq, len(PROMPT))
    index = RouterIndex(4)
    index.add_worker(1)
    events_of(kv, 1, index, token_ids=True)
    assert index.match_tokens(PROMPT, **apart)[1].gpu == 3
    assert index.match_tokens(PROMPT, **{**apart, "tenant": "b"}) == {}
