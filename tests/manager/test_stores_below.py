"""What a store of pages below a manager asks it: `kvframe.tiers` stands on these calls alone."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import KVCacheManager, Request, UnknownSequenceError

PROMPT = list(range(10))


def started(kv: KVCacheManager, request: Request) -> int:
    seq = kv.allocate(request).seq
    kv.commit(seq, len(PROMPT))
    return seq


def test_keys_of_a_sequence_are_those_of_its_prompt() -> None:
    kv = KVCacheManager(block_size=4, capacity=8)
    request = Request(PROMPT, cache_salt="a")
    seq = started(kv, request)
    keys = kv.blocks.sequence_keys(seq)
    assert keys.dtype == np.uint64
    assert keys.tolist() == kv.blocks.hash_blocks(request).tolist()
    assert kv.blocks.sequence_keys(seq, 4).tolist() == keys[:1].tolist()
    private = started(kv, Request(PROMPT, write_cache=False))
    assert kv.blocks.sequence_keys(private).shape == (0, 2)


def test_a_prefix_is_known_by_its_last_block() -> None:
    kv = KVCacheManager(block_size=4, capacity=8)
    seq = started(kv, Request(PROMPT))
    table = kv.block_table(seq).tolist()
    found = kv.blocks.prefix_of(table[1])
    assert found.blocks.tolist() == table[:2]
    assert found.keys.tolist() == kv.blocks.sequence_keys(seq).tolist()
    assert kv.blocks.prefix_of(table[2]).blocks.size == 0


def test_an_origin_is_what_the_request_came_with() -> None:
    kv = KVCacheManager(block_size=4, capacity=8)
    request = Request(PROMPT, cache_salt="a", lora_name="b", session=3)
    origin = kv.inspect.origin(request)
    assert (origin.cache_salt, origin.lora_name, origin.session) == ("a", "b", 3)
    assert kv.inspect.origin(started(kv, request)) == origin
    with pytest.raises(UnknownSequenceError, match="7"):
        kv.inspect.origin(7)


def test_a_request_is_stored_as_it_is_without_a_matcher() -> None:
    kv = KVCacheManager(block_size=4, capacity=8)
    request = Request(PROMPT)
    assert kv.inspect.stored_request(request) is request


def test_new_weights_or_a_reset_of_its_salt_make_a_sequence_stale() -> None:
    kv = KVCacheManager(block_size=4, capacity=16)
    kv.set_weight_version("one")
    first = started(kv, Request(PROMPT))
    assert (kv.inspect.weight_version, kv.inspect.is_current(first)) == ("one", True)
    kv.set_weight_version("two")
    assert (kv.inspect.weight_version, kv.inspect.is_current(first)) == ("two", False)
    second = started(kv, Request(PROMPT, cache_salt="a"))
    kv.reset_prefix_cache()
    assert kv.inspect.is_current(second)
    kv.reset_prefix_cache(cache_salt="a")
    assert not kv.inspect.is_current(second)
