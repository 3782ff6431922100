"""What keeps equal tokens apart: salts, adapters, multimodal items, fingerprints, hashes."""

from __future__ import annotations

import struct
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from kvframe.request import MMItem

from .helpers import cached, manager

PROMPT = list(range(12))

SPACES: dict[str, dict[str, Any]] = {
    "plain": {},
    "salt a": {"cache_salt": "a"},
    "salt b": {"cache_salt": "b"},
    "adapter a": {"lora_name": "a"},
    "salt bc, adapter a": {"cache_salt": "bc", "lora_name": "a"},
    "salt c, adapter ab": {"cache_salt": "c", "lora_name": "ab"},
    "salt b, adapter ca": {"cache_salt": "b", "lora_name": "ca"},
    "salt not ascii": {"cache_salt": "é"},
    "salt decomposed": {"cache_salt": "e\u0301"},
    "salt zero": {"cache_salt": "\x00"},
    "an image": {"mm_items": [MMItem(0, 4, b"x")]},
    "another image": {"mm_items": [MMItem(0, 4, b"y")]},
    "an empty name": {"mm_items": [MMItem(0, 4, b"")]},
    "a shorter image": {"mm_items": [MMItem(0, 3, b"x")]},
    "two images": {"mm_items": [MMItem(0, 2, b"x"), MMItem(2, 4, b"x")]},
}


@pytest.mark.scenario("V16", "V18", "S15", "S16", "S17", "ST7", "ST8", "ST31", "VT11", "T29")
@pytest.mark.parametrize("hash_name", ["sha256", "blake3", "xxh3-128"])
def test_no_two_spaces_share_a_block(hash_name: str) -> None:
    kv = manager(64, hash=hash_name)
    for name, space in SPACES.items():
        assert kv.lookup(PROMPT, **space).tokens == 0, name
        assert kv.allocate(PROMPT, **space).cached_tokens == 0, name
        cached(kv, PROMPT, **space)
        assert kv.lookup([*PROMPT, 0], **space).tokens == 12, name
    keys = {name: kv.blocks.hash_blocks(PROMPT, **space) for name, space in SPACES.items()}
    for one, two in combinations(keys, 2):
        assert (keys[one] != keys[two]).any(axis=1).all(), (one, two)
    kv.check_integrity()


def test_an_item_may_span_blocks_and_reach_past_the_prompt() -> None:
    kv = manager(64)
    long = [MMItem(2, 10, b"cat")]
    assert (
        not (kv.blocks.hash_blocks(PROMPT, mm_items=long) == kv.blocks.hash_blocks(PROMPT))
        .all(axis=1)
        .any()
    )
    # Where the block lies in the item matters; how far the item goes on behind the block does not.
    first = kv.blocks.hash_blocks([1] * 4, mm_items=[MMItem(0, 8, b"cat")])
    shifted = kv.blocks.hash_blocks([1] * 4, mm_items=[MMItem(1, 8, b"cat")])
    ended = kv.blocks.hash_blocks([1] * 4, mm_items=[MMItem(0, 4, b"cat")])
    assert (first != shifted).any()
    assert (first == ended).all()
    seq = kv.allocate(PROMPT[:6], mm_items=[MMItem(6, 8, b"dog")]).seq
    kv.append(seq, PROMPT[6:8])
    kv.commit(seq, 8)
    assert kv.lookup(PROMPT, mm_items=[MMItem(6, 8, b"dog")]).tokens == 8
    assert kv.lookup(PROMPT).tokens == 4


def test_the_order_of_items_does_not_matter_to_what_is_cached() -> None:
    kv = manager(64)
    items = [MMItem(0, 2, b"x"), MMItem(5, 6, b"y")]
    cached(kv, PROMPT, mm_items=items)
    assert kv.lookup([*PROMPT, 0], mm_items=iter(items)).tokens == 12
    assert kv.lookup([*PROMPT, 0], mm_items=[tuple(e) for e in items]).tokens == 12  # type: ignore[misc]


@pytest.mark.scenario("V29", "T30", "ST30")
def test_keys_cover_all_that_the_kv_depends_on() -> None:
    base = manager(8).blocks.hash_blocks([5] * 12)
    assert len({tuple(key) for key in base.tolist()}) == 3
    for other in (
        manager(8, weight_version="v2"),
        manager(8, hash="blake3"),
        manager(8, hash="xxh3-128"),
        manager(8, 2),
    ):
        keys = other.blocks.hash_blocks([5] * 12)
        assert not set(map(tuple, keys.tolist())) & set(map(tuple, base.tolist()))
    assert np.array_equal(manager(99, null_block=True).blocks.hash_blocks([5] * 12), base)


def test_a_key_names_the_whole_prefix() -> None:
    kv = manager(8)
    one, two = kv.blocks.hash_blocks([1] * 4 + [9] * 8), kv.blocks.hash_blocks([2] * 4 + [9] * 8)
    assert (one != two).any(axis=1).all()
    assert np.array_equal(kv.blocks.hash_blocks([1] * 4 + [9] * 11), one)
    assert np.array_equal(kv.blocks.hash_blocks(([1] * 4 + [9] * 8)[:8]), one[:2])


def field(tag: int, value: bytes) -> bytes:
    return bytes([tag]) + struct.pack("<Q", len(value)) + value


def by_hand(tokens: list[int], size: int, salt: bytes, adapter: bytes, items: list[MMItem]) -> Any:
    """The default keys, from the layout that the core's hash module documents."""
    root = b"kvframe.v1" + field(4, struct.pack("<I", size)) + field(5, b"sha256") + field(3, b"w1")
    root += (field(1, salt) if salt else b"") + (field(2, adapter) if adapter else b"")
    link = sha256(root).digest()[:16]
    keys = []
    for start in range(0, len(tokens) - size + 1, size):
        inside = [e for e in items if e.start < start + size and e.end > start]
        if inside:
            message = b"extras" + link
            for item in inside:
                end = min(item.end, start + size)
                message += struct.pack("<qq", item.start - start, end - start)
                message += field(6, item.id)
            link = sha256(message).digest()[:16]
        link = sha256(link + struct.pack(f"<{size}I", *tokens[start : start + size])).digest()[:16]
        keys.append(struct.unpack("<QQ", link))
    return keys


@pytest.mark.parametrize("size", [1, 4, 16, 200])
@pytest.mark.parametrize("salt", ["", "tenant"])
@pytest.mark.parametrize("items", [[], [MMItem(3, 9, b"cat"), MMItem(9, 300, b"")]])
def test_keys_are_what_the_layout_says(size: int, salt: str, items: list[MMItem]) -> None:
    """They name blocks in every tier and on every machine, so they may never change."""
    tokens = [(7 * i) % 2**32 for i in range(410)]
    keys = manager(8, size, weight_version="w1").blocks.hash_blocks(
        tokens, cache_salt=salt, lora_name="lora", mm_items=items
    )
    expected = by_hand(tokens, size, salt.encode(), b"lora", items)
    assert [tuple(key) for key in keys.tolist()] == expected
