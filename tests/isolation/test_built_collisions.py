"""Blocks of two namespaces with one key, built on purpose against the fast hash.

XXH3 of a link and 16 tokens (80 bytes) multiplies words that it adds a secret to without carry:
a word that equals the secret's own makes the product 0 and leaves its neighbour free. Two such
neighbours cancel what the links differ by. Whoever knows both salts can do it with a pencil.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xxhash

from kvframe import Request

from ..amounts import ALL
from .spaces import SPACES
from .world import World

SIZE = 16
MASK = 2**64 - 1
TAGS = {"tenant": 8, "cache_salt": 1, "lora_name": 2, "encoder": 7}
# Words of XXH3's default secret, by their offset.
SECRET = {
    at: struct.unpack("<Q", bytes.fromhex(word))[0]
    for at, word in {
        0: "b8fe6c3923a44bbe",
        8: "7c01812cf721ad1c",
        16: "ded46de9839097db",
        32: "cb79e64eccc0e578",
        48: "b8084674f743248e",
        64: "3c2852bb91c300cb",
    }.items()
}
PRIME = 0x9E3779B185EBCA87
NAMED = [name for name, space in SPACES.items() if "mm_items" not in space]
WAYS: list[dict[str, Any]] = [
    {"index": "hash"},
    {"partial_hits": True, "remap_duplicates": True},
    {"index": "radix", "partial_hits": True},
]
REST = np.arange(100, 120, dtype=np.uint32)


def root(space: str) -> bytes:
    """The link of a namespace's first block, as the core's hash module documents it."""

    def field(tag: int, value: bytes) -> bytes:
        return bytes([tag]) + struct.pack("<Q", len(value)) + value

    told = (
        b"kvframe.v1" + field(4, struct.pack("<I", SIZE)) + field(5, b"xxh3-128") + field(3, b"w1")
    )
    for name, tag in TAGS.items():
        value = SPACES[space].get(name, b"")
        told += field(tag, value if isinstance(value, bytes) else value.encode()) if value else b""
    return sha256(told).digest()[:16]


def colliding(one: bytes, other: bytes) -> list[npt.NDArray[np.uint32]]:
    """A block behind each of two links, of one key."""
    first = [SECRET[32], 5, SECRET[64], 6, SECRET[48], 7, SECRET[16], 8]
    words = [first, [*first]]
    links = [struct.unpack("<QQ", link) for link in (one, other)]
    low = (SIZE * 4 + 16) * PRIME & MASK
    low ^= first[2] + first[3] & MASK
    low ^= first[4] + first[5] & MASK
    sums = [sum(link) & MASK for link in links]
    mixed = [low + _fold(link[0] ^ SECRET[0], link[1] ^ SECRET[8]) & MASK for link in links]
    words[1][1] = ((first[0] + first[1] & MASK) ^ sums[0] ^ sums[1]) - first[0] & MASK
    words[1][7] = ((first[6] + first[7] & MASK) ^ mixed[0] ^ mixed[1]) - first[6] & MASK
    return [np.array(some, np.uint64).view(np.uint32) for some in words]


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & MASK


def prompts(one: str, other: str) -> list[npt.NDArray[np.uint32]]:
    return [np.concatenate([block, REST]) for block in colliding(root(one), root(other))]


def test_the_blocks_of_two_namespaces_collide() -> None:
    """Otherwise nothing here would say anything."""
    world = World(block=SIZE, hash="xxh3-128")
    for one, other in permutations(NAMED, 2):
        blocks = colliding(root(one), root(other))
        digests = {
            xxhash.xxh3_128_digest(root(space) + block.tobytes())
            for space, block in zip((one, other), blocks, strict=True)
        }
        assert len(digests) == 1
    texts = prompts("salt a", "tenant b")
    keys = [
        world.kv.blocks.hash_blocks(text, **SPACES[space])
        for space, text in zip(("salt a", "tenant b"), texts, strict=True)
    ]
    assert np.array_equal(keys[0], keys[1])


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_a_collision_with_another_namespace_is_a_miss(way: dict[str, Any]) -> None:
    pairs = [*permutations(NAMED, 2)][:: 1 if ALL else 19]
    for one, other in pairs:
        mine, theirs = (text.tolist() for text in prompts(one, other))
        world = World(blocks=16, block=SIZE, hash="xxh3-128", **way)
        running = world.start(one, mine).seq
        joined = world.start(other, theirs, join=True)
        assert joined.joined_tokens == joined.cached_tokens == 0
        world.compute(running)
        world.compute(joined.seq)
        assert not set(world.kv.block_table(running)) & set(world.kv.block_table(joined.seq))
        world.check(running)
        world.kv.abort(joined.seq)
        world.kv.reset_prefix_cache()
        world.end(running)
        world.serve(one, mine)
        assert world.kv.lookup([*theirs, 1], **SPACES[other]).tokens == 0
        assert world.kv.pins.pin(theirs, **SPACES[other]) is None
        stepped = world.kv.step(allocate=[Request(theirs, **SPACES[other])])
        (grant,) = stepped.allocations
        assert grant is not None
        assert grant.cached_tokens == 0
        world.kv.release(grant.seq)
        world.serve(other, theirs)
        assert world.serve(one, mine).cached_tokens in (0, 32, 35)
        world.kv.check_integrity()
    print(f"{way}: {len(pairs)} pairs that collide")
