"""`KVCacheManager.advance`: extend, commit and new blocks in one call, by an engine's own keys."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import CapacityError, KVCacheManager, Request, UsageError
from kvframe.errors import UnknownSequenceError
from kvframe.stats import redrive

SIZE = 4


def names(*blocks: int) -> list[bytes]:
    """An engine's hashes, longer than a key."""
    return [block.to_bytes(4, "little") * 8 for block in blocks]


def manager(capacity: int = 8, *, log: bool = False) -> KVCacheManager:
    return KVCacheManager(
        cache={"block_size": SIZE, "capacity": capacity, "event_log": log}, eviction="lru"
    )


def test_it_grows_commits_and_says_which_blocks_are_new() -> None:
    kv = manager()
    given = kv.allocate(None, keys=names(1), num_tokens=6)
    assert kv.advance(given.seq, 8, upto=4) == [[]]
    assert kv.lookup(Request(None, keys=names(1, 2), num_tokens=9)).tokens == 4
    assert kv.advance(given.seq, 13, upto=8, keys=names(2)) == [[2, 3]]
    assert kv.lengths(given.seq)[1:3] == (13, 8)
    assert kv.advance(given.seq, 9) == [[]], "it keeps the slots that it has"
    hit = kv.lookup(Request(None, keys=names(1, 2, 3), num_tokens=13))
    assert (hit.tokens, kv.blocks.unowned(hit.blocks[0])) == (8, 0)
    kv.release(given.seq)
    assert kv.blocks.unowned(hit.blocks[0]) == 2


def test_the_first_16_bytes_of_a_name_count() -> None:
    kv = manager()
    words = np.frombuffer(b"".join(name[:16] for name in names(1, 2)), np.uint64).reshape(2, 2)
    given = kv.allocate(None, keys=words, num_tokens=9)
    kv.commit(given.seq, 8)
    assert kv.lookup(Request(None, keys=names(1, 2), num_tokens=9)).tokens == 8


@pytest.mark.parametrize("keys", [[b"short"], ["text" * 8], [3]])
def test_other_names_are_refused(keys: list[object]) -> None:
    with pytest.raises(UsageError, match="16 of them or more"):
        Request(None, keys=keys, num_tokens=9)


def test_want_of_room_changes_nothing() -> None:
    kv = manager(capacity=3)
    given = kv.allocate(None, keys=names(1), num_tokens=6)
    kv.allocate(None, keys=names(7), num_tokens=4)
    with pytest.raises(CapacityError):
        kv.advance(given.seq, 12, upto=8, keys=names(2))
    assert kv.lengths(given.seq)[1:3] == (6, 0)
    assert kv.advance(given.seq, 8, upto=8, keys=names(2)) == [[]]


def test_its_log_can_be_driven_again() -> None:
    kv = manager(log=True)
    for first in (1, 1, 5):
        given = kv.allocate(None, keys=names(first, 2), num_tokens=9)
        kv.advance(given.seq, 16, upto=12, keys=names(first + 2))
        kv.advance(given.seq, 20, upto=16, keys=names(first + 3))
        kv.release(given.seq)
    log = kv.log.take()
    assert len(redrive(log, manager(log=True))) == len(log)


def windowed(capacity: int = 16) -> KVCacheManager:
    groups = [{"name": "full"}, {"name": "near", "kind": "sliding_window", "window": SIZE + 1}]
    cache = {"block_size": SIZE, "capacity": capacity, "event_log": True, "null_block": True}
    return KVCacheManager(cache=cache, groups=groups, eviction="lru")


def test_what_is_committed_ahead_stays_in_its_window_until_it_is_computed() -> None:
    kv = windowed()
    given = kv.allocate(None, keys=names(1, 2, 3), num_tokens=13, until=4)
    kv.advance(given.seq, 12, upto=12, computed=0)
    near = [kv.block_table(given.seq, group=1).tolist()]
    assert 0 not in near[0], "the step writes and reads all of it"
    free = kv.counts().free
    for computed, more in ((7, 0), (8, 1), (12, 2)):
        assert kv.advance(given.seq, 0, computed=computed) == [[], []]
        assert sum(kv.counts()[:2]) == free + more
    assert kv.block_table(given.seq, group=1).tolist() == [0, 0, near[0][2]]
    kv.check_integrity()
    with pytest.raises(UsageError, match="12"):
        kv.advance(given.seq, 0, computed=13)
    with pytest.raises(UnknownSequenceError):
        kv.advance(7, 0, computed=1)
    kv.release(given.seq)
    log = kv.log.take()
    assert len(redrive(log, windowed())) == len(log)


def test_a_commit_behind_the_computation_leaves_windows_by_itself() -> None:
    kv = windowed()
    given = kv.allocate(None, keys=names(1, 2, 3), num_tokens=13, until=12)
    kv.advance(given.seq, 12, upto=12)
    assert kv.block_table(given.seq, group=1).tolist()[:2] == [0, 0]
