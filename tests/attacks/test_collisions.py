"""Prompts made to collide, where keys are Python's `hash`, and what they find here.

CVE-2025-25183: since Python 3.12 the hash of None is a constant, as those of integers always were.
Whoever knows the code can compute the hash of a chain of blocks, and look for another chain of the
same. For collisions under XXH3, see tests/manager/test_collisions.py and
tests/isolation/test_built_collisions.py.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kvframe import Config, KVCacheManager, Request

BLOCK = 4
PRIMES = 11400714785074694791, 14029467366897019727, 2870177450012600261
"""Of xxHash, as CPython's tuplehash has them (Objects/tupleobject.c)."""


@cache
def colliding() -> tuple[list[int], list[int]]:
    """Two pairs of tokens after which the hash of a tuple is the same, whatever follows them.

    The state after one token is a number of 64 bits to which the next token's multiple is added. Of
    a million first tokens, some leave states that lie less than 2**32 such multiples apart.
    """
    one, two, five = (np.uint64(prime) for prime in PRIMES)
    with np.errstate(over="ignore"):
        first = np.unique(np.random.default_rng(0).integers(0, 2**31, 2**20, np.uint64))
        state = five + first * two
        state = ((state << np.uint64(31)) | (state >> np.uint64(33))) * one
        places = state * np.uint64(pow(PRIMES[1], -1, 2**64))
        order = np.argsort(places)
        gaps = np.diff(places[order])
    at = int(np.argmin(gaps))
    gap = int(gaps[at])
    assert gap < 2**31
    near, far = int(first[order[at]]), int(first[order[at + 1]])
    return [near, 5 + gap], [far, 5]


def test_the_prompts_collide_under_pythons_hash() -> None:
    rest = [*range(100, 120)]
    victim, attacker = ([*head, *rest] for head in colliding())
    assert victim != attacker
    blocks = [
        [tuple(text[i : i + BLOCK]) for i in range(0, 24, BLOCK)] for text in (victim, attacker)
    ]
    keys = []
    for chain in blocks:
        parent: int | None = None
        own = []
        for block in chain:
            parent = hash((parent if parent is not None else 0, block))
            own.append(parent)
        keys.append(own)
    assert keys[0] == keys[1]  # a cache keyed so serves the one with the other's KV


@pytest.mark.parametrize("hash_", ["sha256", "blake3", "xxh3-128"])
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_they_find_nothing_of_each_other(hash_: str, index: str) -> None:
    rest = [*range(100, 120)]
    victim, attacker = ([*head, *rest] for head in colliding())
    kv = KVCacheManager(
        Config.of(cache={"block_size": BLOCK, "capacity": 64, "hash": hash_, "index": index})
    )
    for text, found in ((victim, 0), (attacker, 0), (victim, 20), (attacker, 20)):
        grant = kv.allocate(Request(text))
        assert grant.cached_tokens == found
        kv.commit(grant.seq, grant.prompt_tokens)
        kv.release(grant.seq)
