"""What a router knows of its workers, from their events."""

from __future__ import annotations

import random
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import kvframe
from kvframe import EventKind, Reach, RouterIndex, UsageError
from tests.workers import together


def by_hash(*workers: int, capacity: int = 1000) -> RouterIndex:
    index = RouterIndex(capacity=capacity)
    for worker in workers:
        assert index.add_worker(worker)
    return index


@pytest.mark.scenario("S31")
def test_tiers_and_a_bound() -> None:
    index = by_hash(7, capacity=10)
    index.stored(7, [1, 2, 3])
    index.stored(7, [2, 3], parent=1, medium="cpu_pinned")
    assert index.removed(7, [2, 9]) == 1
    assert index.match_hashes([1, 2, 3, 4]) == {7: Reach(1, 3, 3, 3)}
    for block in range(100, 200):
        index.stored(7, [block], medium="DISK")
        assert index.match_hashes([1, 2, 3])[7].host == 3
    assert len(index) == 10
    assert index.counts().dropped == 93


@pytest.mark.scenario("S31")
def test_a_block_that_went_down_a_tier_is_known_when_the_news_comes_late() -> None:
    """The host's event names no tokens, and the GPU's removal may come before it."""
    index = RouterIndex(block_size=2)
    index.add_worker(1)
    index.stored(1, range(3_000), None, range(6_000))
    index.removed(1, range(2_999, 1_898, -1))
    assert index.stored(1, [1_899, 1_900, 2_999], medium="CPU") == 2
    assert index.match_tokens(range(6_000))[1] == (1_899, 1_901, 1_901, 1_901)
    assert index.counts().unplaced == 1
    index.cleared(1)
    assert index.stored(1, [1_899], medium="CPU") == 0


@pytest.mark.scenario("F22")
@pytest.mark.parametrize("pieces", range(1, 7))
def test_a_chain_beyond_the_capacity_keeps_its_head(pieces: int) -> None:
    index = RouterIndex(block_size=2, capacity=4)
    index.add_worker(1)
    for first in range(0, 6, pieces):
        blocks = range(first + 1, min(first + pieces, 6) + 1)
        tokens = range(2 * first, 2 * blocks[-1])
        index.stored(1, blocks, first or None, tokens)
    assert (len(index), index.match_tokens(range(12))[1].gpu) == (4, 4)
    assert index.counts().dropped == 2


@pytest.mark.scenario("F22")
@pytest.mark.parametrize(
    "events", [[([6, 6], None)], [([11, 12], None), ([11], 12)], [([1], None), ([1], 1)]]
)
def test_a_block_behind_itself_is_counted_and_leaves_nothing(
    events: list[tuple[list[int], int | None]],
) -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(1)
    for blocks, parent in events:
        index.stored(1, blocks, parent, range(4 * len(blocks)))
    assert index.counts().unplaced == 1
    names = {name for blocks, _ in events for name in blocks}
    assert index.match_tokens(range(8))[1].gpu == len(names)
    index.removed(1, sorted(names))
    assert (len(index), index.match_tokens(range(8))) == (0, {})


@pytest.mark.scenario("F22")
def test_an_unknown_medium_is_counted_and_its_block_somewhere() -> None:
    index = RouterIndex(block_size=2)
    index.add_worker(1)
    assert index.stored(1, [1, 2], None, [1, 2, 3, 4], medium="CXL") == 2
    assert index.match_tokens([1, 2, 3, 4, 5]) == {1: Reach(0, 0, 0, 2)}
    index.stored(1, [2], medium="EXTERNAL")
    assert index.removed(1, [2], medium="cxl") == 1
    assert index.match_tokens([1, 2, 3, 4, 5]) == {1: Reach(0, 0, 0, 2)}
    assert index.removed(1, [1, 2], medium="GPU") == 0
    assert index.removed(1, [1], medium="") == 1
    assert index.match_tokens([1, 2, 3]) == {}
    assert index.counts() == (0, 0, 0, 3)


@pytest.mark.scenario("F22")
def test_ranks_have_caches_of_their_own() -> None:
    index = RouterIndex(block_size=2)
    index.add_worker(1)
    prompt = [1, 2, 3, 4, 5]
    index.stored(1, [1, 2], None, prompt[:4])
    index.stored(1, [1], None, prompt[:2], rank=3)
    index.stored(1, [1, 2], rank=3, medium="CPU")
    assert index.counts().unplaced == 1
    assert index.match_tokens(prompt) == {1: Reach(2, 2, 2, 2)}
    reach = {(1, 0): Reach(2, 2, 2, 2), (1, 3): Reach(1, 1, 1, 1)}
    assert index.match_tokens(prompt, ranks=True) == reach
    assert index.cleared(1, rank=0) == 2
    assert index.match_tokens(prompt) == {1: Reach(1, 1, 1, 1)}
    assert (index.workers(), index.cleared(1), len(index)) == ([1], 1, 0)


@pytest.mark.scenario("T27")
def test_a_dead_worker_is_purged_whatever_is_still_queued() -> None:
    index = by_hash(1, 2)
    index.stored(1, [1, 2])
    index.stored(2, [1])
    assert index.remove_worker(1)
    assert not index.remove_worker(1)
    assert index.stored(1, [1, 2]) == index.removed(1, [1]) == index.cleared(1) == 0
    assert index.match_hashes([1, 2]) == {2: Reach(1, 1, 1, 1)}
    assert index.counts().ignored == 3
    assert index.workers() == [2]


@pytest.mark.scenario("T26")
def test_all_cleared_is_acted_on() -> None:
    index = by_hash(1, 2)
    index.stored(1, [-1, 2])
    index.stored(2, np.array([2**64 - 1], np.uint64))
    assert index.cleared(1) == 2
    assert list(index.match_hashes([-1, 2])) == [2]


def test_workers_that_hash_differently_are_asked_by_tokens() -> None:
    index = RouterIndex(block_size=4)
    index.add_worker(1)
    index.add_worker(2)
    assert index.stored(1, [11, 12], None, [1, 2, 3, 4, 5, 6, 7, 8]) == 2
    assert index.stored(2, [-5], None, np.array([1, 2, 3, 4], np.uint32)) == 1
    assert index.stored(2, [6], 99, [5, 6, 7, 8]) == 0
    assert index.stored(1, [21], None, [1, 2, 3, 4], cache_salt="tenant", lora_name="lora") == 1
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert {w: r.gpu for w, r in index.match_tokens(prompt).items()} == {1: 2, 2: 1}
    assert {w: r.gpu for w, r in index.match_tokens(prompt, cache_salt="tenant").items()} == {}
    assert index.match_tokens(prompt, cache_salt="tenant", lora_name="lora") == {
        1: Reach(1, 1, 1, 1)
    }
    assert index.counts().unplaced == 1


def test_a_caches_own_events_keep_a_router_right() -> None:
    config = kvframe.Config(cache=kvframe.CacheConfig(block_size=4, capacity=16, event_log=True))
    kv, index, draw = kvframe.KVCacheManager(config), RouterIndex(block_size=4), random.Random(3)
    index.add_worker(0)
    for _ in range(400):
        prompt = [draw.randrange(2) for _ in range(draw.randrange(5, 30))]
        # The last token is always computed, so the cache itself takes no block that holds it.
        reach = index.match_tokens(prompt[:-1]).get(0)
        assert (reach.gpu if reach else 0) == kv.lookup(prompt).tokens // 4
        seq = kv.admit(prompt).seq
        kv.commit(seq, len(prompt))
        kv.release(seq)
        for event in kv.take_log():
            name = int.from_bytes(event.key[:8], "little")
            if event.kind == EventKind.STORE:
                above = int.from_bytes(event.parent[:8], "little") if event.other else None
                index.stored(0, [name], above, event.ids)
            elif event.kind in (EventKind.EVICT, EventKind.FORGET):
                index.removed(0, [name])
    assert kv.stats()["evictions"] > 100


def test_what_is_refused() -> None:
    index = RouterIndex(block_size=4)
    with pytest.raises(UsageError, match="medium = 5: must be a string"):
        index.stored(1, [1], medium=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="rank = -1: must be an integer between 0"):
        index.removed(1, [1], rank=-1)
    with pytest.raises(UsageError, match="block hash 18446744073709551616: must be an int"):
        index.removed(1, [2**64])
    with pytest.raises(UsageError, match="by tokens"):
        index.match_hashes([1])
    with pytest.raises(UsageError, match="give it a block_size"):
        RouterIndex().match_tokens([1])
    with pytest.raises(UsageError, match="block_size = 0: must be at least 1"):
        RouterIndex(block_size=0)
    with pytest.raises(UsageError, match="capacity = 0"):
        RouterIndex(capacity=0)


@pytest.mark.scenario("S31")
def test_a_worker_that_is_not_known_leaves_nothing() -> None:
    """Kinds of layer groups are remembered of those that are known, and go with them."""
    index = RouterIndex()
    for _ in range(2):
        assert index.keeps(7, 3, "full_attention")
        assert not index.keeps(7, 3)
        index.add_worker(7)
        assert not index.keeps(7, 3)
        assert index.keeps(7, 3, "full_attention")
        assert index.keeps(7, 3)
        index.remove_worker(7)


def test_threads_share_an_index() -> None:
    index = by_hash(*range(4), capacity=10_000)

    def feed(worker: int) -> None:
        for first in range(0, 2000, 8):
            index.stored(worker, range(first, first + 8))
            index.match_hashes(range(first, first + 8))

    together(*(partial(feed, worker) for worker in range(4)))
    assert index.match_hashes(range(2000)) == {w: Reach(2000, 2000, 2000, 2000) for w in range(4)}


FORK = """
import os
from kvframe import HandleError, RouterIndex
index = RouterIndex(2)
index.add_worker(1)
child = os.fork()
if child == 0:
    calls = [
        lambda: index.add_worker(2), lambda: index.remove_worker(1), lambda: index.cleared(1),
        lambda: index.stored(1, [1], None, [1, 2]), lambda: index.removed(1, [1]),
        lambda: index.match_tokens([1, 2]), lambda: index.workers(), lambda: index.counts(),
        lambda: len(index),
    ]
    for call in calls:
        try:
            call()
        except HandleError as error:
            assert "belongs to the parent of a fork" in str(error)
        else:
            os._exit(1)
    RouterIndex(2).add_worker(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert index.stored(1, [1], None, [1, 2]) == 1
"""


def test_a_forked_child_makes_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)
