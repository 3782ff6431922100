"""What an argument's own code raises, an interrupt say, reaches the caller as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, MMItem, RouterIndex, UsageError
from kvframe.block_queue import BlockQueue
from kvframe.flat import TierPolicy
from kvframe.prefix_tree import PrefixTree

from .helpers import manager, state

RAISED: list[type[BaseException]] = [KeyboardInterrupt, SystemExit, RuntimeError, MemoryError]


class Sequence:
    """Raises as soon as it is read."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        raise self._error

    def __getitem__(self, place: int) -> Any:
        raise self._error


class Number:
    """Raises as soon as its value is asked for."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __index__(self) -> int:
        raise self._error

    __int__ = __index__


def tier() -> TierPolicy[Any]:
    return TierPolicy.named("lru", 4)


Call = Callable[[KVCacheManager, int, Any], object]
SEQUENCES: dict[str, Call] = {
    "allocate": lambda kv, seq, bad: kv.allocate(bad),
    "lookup": lambda kv, seq, bad: kv.lookup(bad),
    "mm_items": lambda kv, seq, bad: kv.allocate([1], mm_items=bad),
    "an item": lambda kv, seq, bad: kv.allocate([1], mm_items=[bad]),
    "append": lambda kv, seq, bad: kv.append(seq, bad),
    "fill_placeholders": lambda kv, seq, bad: kv.fill_placeholders(seq, bad),
    "fork": lambda kv, seq, bad: kv.fork(seq, 2, tokens=bad),
    "step append": lambda kv, seq, bad: kv.step(append=bad),
    "step release": lambda kv, seq, bad: kv.step(release=bad),
    "step commit": lambda kv, seq, bad: kv.step(commit=bad),
    "step truncate": lambda kv, seq, bad: kv.step(truncate=([seq], bad)),
    "block_tables": lambda kv, seq, bad: kv.block_tables(bad, np.zeros((1, 4), np.int32)),
    "slot_mapping": lambda kv, seq, bad: kv.slot_mapping([seq], bad, [1], np.zeros(1, np.int64)),
    "owners": lambda kv, seq, bad: kv.blocks.generations(bad),
    "match_hashes": lambda kv, seq, bad: RouterIndex().match_hashes(bad),
    "match_tokens": lambda kv, seq, bad: RouterIndex(4).match_tokens(bad),
    "tree": lambda kv, seq, bad: PrefixTree.named("lru", 4).find(bad, None, None),
    "queue": lambda kv, seq, bad: BlockQueue.named("lru", 4).hit(bad),
    "queue keys": lambda kv, seq, bad: BlockQueue.named("lru", 4).insert([0, 1], bad, 0),
    "queue depths": lambda kv, seq, bad: BlockQueue.named("lru", 4).insert(
        [0, 1], [b"a", b"b"], bad
    ),
}
NUMBERS: dict[str, Call] = {
    "commit": lambda kv, seq, bad: kv.commit(seq, bad),
    "release": lambda kv, seq, bad: kv.release(bad),
    "extend": lambda kv, seq, bad: kv.extend(seq, bad),
    "session": lambda kv, seq, bad: kv.allocate([1], session=bad),
    "priority": lambda kv, seq, bad: kv.allocate([1], priority=bad),
    "a token": lambda kv, seq, bad: kv.append(seq, [bad]),
    "a handle": lambda kv, seq, bad: kv.step(release=[bad]),
    "an item's place": lambda kv, seq, bad: kv.allocate([1], mm_items=[MMItem(bad, 1, b"x")]),
    "a hash": lambda kv, seq, bad: RouterIndex().match_hashes([bad]),
    "tier": lambda kv, seq, bad: tier().insert("a", depth=bad),
    "node": lambda kv, seq, bad: PrefixTree.named("lru", 4).lock(bad),
    "tokens": lambda kv, seq, bad: PrefixTree.named("lru", 4).evict(bad),
}
CALLS = {**{name: (call, Sequence) for name, call in SEQUENCES.items()}} | {
    name: (call, Number) for name, call in NUMBERS.items()
}


@pytest.mark.parametrize("error", RAISED, ids=lambda error: error.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_it_is_not_taken_for_a_wrong_value(name: str, error: type[BaseException]) -> None:
    call, kind = CALLS[name]
    kv = manager()
    seq = kv.allocate([1, 2, 3]).seq
    before = state(kv)
    with pytest.raises(error) as told:
        call(kv, seq, kind(error))
    assert type(told.value) is error
    assert state(kv) == before
    kv.check_integrity()


@pytest.mark.parametrize("name", CALLS)
def test_what_has_no_value_is_a_wrong_one(name: str) -> None:
    call, kind = CALLS[name]
    kv = manager()
    seq = kv.allocate([1, 2, 3]).seq
    with pytest.raises(UsageError):
        call(kv, seq, kind(TypeError))
