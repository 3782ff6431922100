"""Under a hash that is not cryptographic, blocks that collide never give another prefix's KV."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xxhash

from kvframe import Fit, GroupConfig, KVCacheManager, Request, SlotCache
from tests.manager.helpers import manager

SIZE = 16
TOKENS = 48

SECRET = int("cb79e64eccc0e578", 16), int("825ad07dccff7221", 16)
"""Bytes 32 to 48 of XXH3's default secret, as they stand."""


def colliding() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Two blocks of 16 tokens with one key, whatever comes before them.

    XXH3 takes the first four tokens as two words, adds each to a word of its secret without carry
    and multiplies them: where a word is the secret's own, the product is 0. Their sum enters, too.
    """
    s, t = (int.from_bytes(word.to_bytes(8, "big"), "little") for word in SECRET)
    total = 0x0123_4567_89AB_CDEF
    rest = np.arange(1, 13, dtype=np.uint32)
    blocks = []
    for pair in ((s, total - s), (total - t, t)):
        words = np.array([word % 2**64 for word in pair], np.uint64)
        blocks.append(np.concatenate([words.view(np.uint32), rest]))
    return blocks[0], blocks[1]


ONE, OTHER = colliding()
REST = np.arange(100, 100 + TOKENS, dtype=np.uint32)
PROMPT, TWIN = (np.concatenate([block, REST]) for block in (ONE, OTHER))

GROUPS: dict[str, list[GroupConfig]] = {
    "full": [GroupConfig(name="a")],
    "two full": [GroupConfig(name="a"), GroupConfig(name="b", block_size=32)],
    "lag": [GroupConfig(name="a"), GroupConfig(name="b", lag=1)],
    "window": [GroupConfig(name="w", kind="sliding_window", window=20)],
    "window of one": [GroupConfig(name="w", kind="sliding_window", window=1)],
    "chunked": [GroupConfig(name="c", kind="chunked", chunk=32)],
    "sinks": [GroupConfig(name="s", kind="sink_window", sink=4, window=20)],
    "state": [GroupConfig(name="s", kind="state")],
    "interval": [GroupConfig(name="s", kind="state", interval=0)],
    "full and window": [
        GroupConfig(name="a"),
        GroupConfig(name="w", kind="sliding_window", window=20),
    ],
    "window and state": [
        GroupConfig(name="w", kind="sliding_window", window=20),
        GroupConfig(name="s", kind="state", block_size=32),
    ],
    "full and cross": [GroupConfig(name="a"), GroupConfig(name="x", kind="cross")],
}
PLAIN = ("full", "window", "full and window")


NEEDS_NOTHING = ("window of one", "chunked")
"""Groups in which the token after PROMPT attends to none of it, so that a hit reads nothing."""


NO_HANDLE = (*NEEDS_NOTHING, "sinks")
"""Where nothing can be attached to PROMPT: what is computed behind a gap is not found."""


def fast(groups: str, **cache: Any) -> KVCacheManager:
    return manager(64, SIZE, groups=GROUPS[groups], **{"hash": "xxh3-128", **cache})


def told_apart(groups: str) -> int:
    """What is found of TWIN where PROMPT alone is cached and keys do not collide."""
    kv = fast(groups, hash="sha256")
    leave(kv, PROMPT)
    return kv.lookup([*TWIN, 7]).tokens


def leave(kv: KVCacheManager, tokens: Any, upto: int | None = None) -> None:
    seq = kv.admit(tokens).seq
    kv.commit(seq, len(tokens) if upto is None else upto)
    kv.release(seq)


def test_the_blocks_collide() -> None:
    """Otherwise nothing here would say anything."""
    link = bytes(range(16))
    assert not np.array_equal(ONE, OTHER)
    keys = {xxhash.xxh3_128_digest(link + block.tobytes()) for block in (ONE, OTHER)}
    assert len(keys) == 1
    kv = fast("full")
    assert np.array_equal(kv.hash_blocks(PROMPT), kv.hash_blocks(TWIN))


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("groups", GROUPS)
def test_only_the_prefix_itself_is_found(groups: str) -> None:
    kv = fast(groups)
    leave(kv, PROMPT)
    right = told_apart(groups)
    assert (right == 0) == (groups not in NEEDS_NOTHING)
    assert kv.lookup([*PROMPT, 7]).tokens > 0
    assert kv.lookup([*TWIN, 7]).tokens == right
    grant = kv.admit([*TWIN, 7])
    assert grant.cached_tokens == right
    kv.commit(grant.seq, len(TWIN) + 1)
    fork = kv.fork(grant.seq)
    kv.append(fork, [9])
    kv.commit(fork, len(TWIN) + 2)
    for seq in (fork, grant.seq):
        kv.release(seq)
    first = kv.admit([*PROMPT, 7])
    assert first.cached_tokens > 0
    kv.check_integrity()


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("groups", GROUPS)
def test_what_came_back_after_new_weights_is_told_apart_as_well(groups: str) -> None:
    kv = fast(groups)
    kv.set_fingerprint("v2")
    leave(kv, PROMPT)
    assert kv.lookup([*PROMPT, 7]).tokens > 0
    assert kv.lookup([*TWIN, 7]).tokens == told_apart(groups)


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("groups", [name for name in GROUPS if name not in NO_HANDLE])
def test_a_handle_is_of_its_own_prefix(groups: str) -> None:
    kv = fast(groups)
    seq = kv.admit(PROMPT).seq
    kv.commit(seq, len(PROMPT))
    kv.attach(seq, 5)
    kv.release(seq)
    assert kv.lookup(PROMPT).attached == 5
    assert kv.lookup(TWIN).attached is None
    assert kv.admit(TWIN).attached is None


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("groups", PLAIN)
def test_a_computation_is_joined_by_its_own_prefix(groups: str) -> None:
    kv = fast(groups)
    out = kv.step(admit=[Request(PROMPT), Request(TWIN, join=True), Request(PROMPT, join=True)])
    joined = [grant.joined_tokens for grant in out.grants if grant is not None]
    assert joined == [0, 0, len(PROMPT) - SIZE]


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("groups", PLAIN)
@pytest.mark.parametrize("remap", [False, True])
def test_duplicates_and_partial_blocks_stay_apart(groups: str, remap: bool) -> None:
    kv = fast(groups, remap_duplicates=remap, partial_hits=True)
    seqs = [kv.admit(tokens).seq for tokens in (PROMPT[:-3], TWIN[:-3], PROMPT[:-3])]
    for seq in seqs:
        kv.commit(seq, len(PROMPT) - 3)
    tables = [set(kv.block_table(seq).tolist()) - {-1} for seq in seqs]
    assert not tables[0] & tables[1]
    assert bool(tables[0] & tables[2]) == remap
    for seq in seqs:
        kv.release(seq)
    assert kv.lookup([*PROMPT[:-3], 1]).tokens == len(PROMPT) - 3
    assert kv.lookup([*TWIN[:-3], 1]).tokens in (0, len(TWIN) - 3)
    if groups == "full":
        assert kv.lookup([*TWIN[:-3], 1]).tokens == 0
    kv.check_integrity()


@pytest.mark.scenario("F21")
def test_the_tree_and_slots_compare_tokens() -> None:
    kv = manager(64, SIZE, index="radix", hash="xxh3-128", partial_hits=True)
    leave(kv, PROMPT)
    assert (kv.lookup([*PROMPT, 7]).tokens, kv.lookup([*TWIN, 7]).tokens) == (len(PROMPT), 0)
    slots = SlotCache(2, 100)
    seq = slots.admit(PROMPT).seq
    slots.commit(seq, len(PROMPT))
    slots.release(seq)
    assert slots.admit(TWIN).cached_tokens == 0


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("groups", [name for name in GROUPS if name not in NEEDS_NOTHING])
def test_a_load_is_found_by_its_own_prefix(groups: str) -> None:
    kv = fast(groups)
    grant = kv.admit(Request([*PROMPT, 7], num_external_tokens=len(PROMPT)))
    assert grant.load is not None
    kv.loaded(grant.load, len(PROMPT) // SIZE)
    kv.release(grant.seq)
    assert kv.lookup([*TWIN, 7]).tokens == 0


def pages(kv: KVCacheManager, groups: str, seq: int, upto: int) -> list[tuple[int, int, int]]:
    """(group, block, end of its tokens) of what a sequence of so many tokens has."""
    spans = [group.block_size or SIZE for group in GROUPS[groups]]
    return [
        (group, block, min((at + 1) * span, upto))
        for group, span in enumerate(spans)
        if GROUPS[groups][group].kind != "cross"
        for at, block in enumerate(kv.block_table(seq, group).tolist())
        if block >= 0 and at * span < upto
    ]


@pytest.mark.scenario("F21")
@pytest.mark.parametrize("policy", ["lru", "s3-fifo"])
@pytest.mark.parametrize("groups", GROUPS)
def test_whatever_happens_what_is_read_was_computed_for_it(groups: str, policy: str) -> None:
    """A page says which prefix it was computed for; a hit must find none of another one."""
    draw = random.Random(groups + policy)
    kv = manager(40, SIZE, groups=GROUPS[groups], hash="xxh3-128", policy=policy)
    computed: dict[int, bytes] = {}
    live: dict[int, npt.NDArray[np.uint32]] = {}
    hits = 0
    for _ in range(300):
        if live and (len(live) > 2 or draw.random() < 0.4):
            seq = draw.choice([*live])
            kv.release(seq)
            del live[seq]
            continue
        parts = [draw.choice((ONE, OTHER, REST[:16])) for _ in range(draw.randrange(1, 5))]
        prompt = np.concatenate([*parts, REST[: draw.randrange(1, 16)]])
        if kv.fits(Request(prompt)) is not Fit.NOW:
            continue
        grant = kv.admit(prompt)
        live[grant.seq] = prompt
        hits += grant.cached_tokens > 0
        for _, block, end in pages(kv, groups, grant.seq, grant.cached_tokens):
            assert computed[block] == prompt[:end].tobytes()
        for _, block, end in pages(kv, groups, grant.seq, len(prompt)):
            if end > grant.cached_tokens:
                computed[block] = prompt[:end].tobytes()
        kv.commit(grant.seq, len(prompt))
    assert hits > 20
    kv.check_integrity()
