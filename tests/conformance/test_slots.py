"""The slot allocator with its radix prefix cache: what of it (SA, SA-B) is control.

There a prefix lives in a slot and is pinned by its path; here in blocks, and a pin is a lease.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kvframe import CapacityError, HandleError, NeverFitsError, Request, UsageError

from .helpers import available, cached, evicted, found, manager, owners, state, words


@pytest.mark.scenario("SA-4", "SA-B11")
def test_a_pin_is_a_ticket_of_its_own() -> None:
    kv = manager(4)
    seq = kv.allocate(list(range(8))).seq
    kv.commit(seq, 8)
    pins = [kv.pins.lease(seq, 8), kv.pins.lease(seq, 8)]
    kv.release(seq)
    assert [owners(kv, block) for block in (0, 1)] == [2, 2]
    kv.done(pins[0])
    for gone in (pins[0], 99):
        with pytest.raises(HandleError):
            kv.done(gone)
    # Letting go of one twice did not take the other away.
    assert [owners(kv, block) for block in (0, 1)] == [1, 1]
    with pytest.raises(CapacityError):
        kv.allocate([9] * 12)
    kv.done(pins[1])
    assert available(kv) == 4


@pytest.mark.scenario("SA-7", "SA-B1", "SA-B2", "VT6")
def test_over_capacity_leaves_go_oldest_first_and_paths_only_shorten() -> None:
    kv = manager(6)
    pinned = kv.allocate([*words(1, 2, size=4), 0], until=8).seq
    kv.commit(pinned, 8)
    for branch in (3, 4, 5, 6):
        cached(kv, words(1, branch, size=4))
    assert kv.counts() == (0, 4, 2, 6)
    for wanted, left in ((7, [0, 8, 8, 8]), (8, [0, 0, 8, 8])):
        cached(kv, words(wanted, size=4))
        lengths = [found(kv, words(1, branch, size=4)) for branch in (3, 4, 5, 6)]
        # The shared head is nobody's leaf; a path that lost its end is found in part.
        assert lengths == [4 if n == 0 else n for n in left]
        kv.check_integrity()
    assert found(kv, words(1, 2, size=4)) == 8
    # Over what was evicted, finding and inserting go on as ever.
    cached(kv, words(1, 3, size=4))
    assert found(kv, words(1, 3, size=4)) == 8
    kv.release(pinned)
    kv.check_integrity()


@pytest.mark.scenario("SA-B2")
def test_an_inner_block_never_goes_before_what_follows_it() -> None:
    kv = manager(8)
    for branch in (2, 3, 4):
        cached(kv, words(1, branch, size=4))
        cached(kv, words(1, branch, 9, size=4))
    reachable = kv.counts().cached
    for _ in range(reachable):
        kv.evict_until(kv.counts().free + 1)
        seen = set()
        for branch in (2, 3, 4):
            for blocks in kv.lookup([*words(1, branch, 9, size=4), 0]).blocks:
                seen |= set(blocks.tolist())
        # Whatever still takes room can still be found.
        assert len(seen) == kv.counts().cached
        kv.check_integrity()
    assert kv.counts().cached == 0


@pytest.mark.scenario("SA-B4")
def test_capacity_is_in_blocks_and_a_prompt_does_not_eat_its_own_head() -> None:
    kv = manager(1000, 16)
    long = list(range(1200))
    cached(kv, long)
    assert (found(kv, long), kv.counts().cached) == (1200, 75)
    full = list(range(16_000))
    cached(kv, full)
    assert (found(kv, full), evicted(kv)) == (16_000, 0)
    with pytest.raises(NeverFitsError):
        kv.allocate(list(range(16_001)))
    assert found(kv, full) == 16_000


@pytest.mark.scenario("SA-B5", "I8")
@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu", "lfuda", "slru"])
def test_who_owns_the_end_owns_the_way_there(policy: str) -> None:
    kv = manager(8, policy=policy)
    cached(kv, words(1, 2, 3, size=4))
    deep = kv.allocate([*words(1, 2, 3, size=4), 0], until=12).seq
    path = kv.block_table(deep).tolist()
    assert [owners(kv, block) for block in path] == [1, 1, 1]
    for scan in range(100, 130):
        cached(kv, words(scan, scan + 1, size=4))
    assert kv.block_table(deep).tolist() == path
    assert found(kv, words(1, 2, 3, size=4)) == 12
    kv.check_integrity()


@pytest.mark.scenario("SA-B8", "SA-B9", "IL-B14")
def test_what_is_taken_is_never_handed_out_again() -> None:
    kv = manager(4)
    lent = np.zeros(4, np.int32)
    kv.blocks.take(out=lent)
    assert sorted(lent.tolist()) == [0, 1, 2, 3]
    with pytest.raises(CapacityError):
        kv.blocks.take(out=np.zeros(1, np.int32))
    kv.blocks.free(lent[2:3])
    before = state(kv)
    for wrong in (lent[2:3], np.array([9], np.int32), np.array([-1], np.int32), lent[[0, 0]]):
        with pytest.raises(UsageError):
            kv.blocks.free(wrong)
        assert state(kv) == before
    again = np.zeros(1, np.int32)
    kv.blocks.take(out=again)
    assert again.tolist() == [2]
    with pytest.raises(CapacityError):
        kv.blocks.take(out=again)


@pytest.mark.scenario("SA-B10", "IL-B3")
def test_a_length_found_comes_with_its_places() -> None:
    dice = Random(3)
    kv = manager(12)
    for _ in range(300):
        prompt = words(*(dice.randrange(3) for _ in range(dice.randrange(1, 5))), size=4)
        hit = kv.lookup([*prompt, 5])
        (blocks,) = hit.blocks
        assert (4 * blocks.size, len(set(blocks.tolist()))) == (hit.tokens, blocks.size)
        states = {kv._core.block_state(block)[0] for block in blocks.tolist()}
        assert states <= {"cached", "committed"}
        cached(kv, prompt)


@pytest.mark.scenario("SA-B15", "T33")
def test_what_counts_is_found_when_it_comes_in() -> None:
    kv = manager(6)
    cached(kv, range(8))
    waiting = Request([*range(8), 50, 51])
    assert kv.lookup([*range(8), 50, 51]).tokens == 8
    kv.release(kv.allocate(words(*range(10, 15), size=4)).seq)
    grant = kv.allocate(waiting)
    assert grant.cached_tokens == found(kv, list(range(4))) == 4
    assert kv.lengths(grant.seq) == (10, 10, 4, 4)
    kv.commit(grant.seq, 10)
    # The next token goes behind the prompt, and what was generated is found as well.
    kv.append(grant.seq, [52, 53])
    out = np.zeros(2, np.int64)
    kv.slot_mapping([grant.seq], [10], [2], out)
    assert (out % 4).tolist() == [2, 3]
    kv.commit(grant.seq, 12)
    kv.release(grant.seq)
    assert found(kv, [*range(8), 50, 51, 52, 53]) == 12


@pytest.mark.scenario("SA-B16")
def test_ten_tokens_take_one_block_and_not_a_slot() -> None:
    kv = manager(64, 16)
    seqs = [kv.allocate([n] * 10).seq for n in range(64)]
    assert kv.counts().free == 0
    assert len({int(kv.block_table(seq)[0]) for seq in seqs}) == 64
