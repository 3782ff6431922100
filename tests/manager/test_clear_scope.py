"""One adapter, salt or session is forgotten: what is loaded anew never finds the old KV."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import EventKind, GroupConfig, KVCacheManager, UsageError
from kvframe.stats import BlockEvents, Rebuild, redrive

from .helpers import cached, manager

TEXT = list(range(13))
GROUPS = [
    (),
    (GroupConfig(name="full"), GroupConfig(name="near", kind="sliding_window", window=8)),
]


def found(kv: KVCacheManager, **space: Any) -> int:
    return kv.lookup(TEXT, **space).tokens


def three(kv: KVCacheManager) -> None:
    cached(kv, TEXT)
    cached(kv, TEXT, lora_name="a")
    cached(kv, TEXT, lora_name="a", cache_salt="s")
    cached(kv, TEXT, cache_salt="s")


@pytest.mark.scenario("F30")
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ({"lora_name": "a"}, [12, 0, 0, 12]),
        ({"cache_salt": "s"}, [12, 12, 0, 0]),
        ({"lora_name": "a", "cache_salt": "s"}, [12, 12, 0, 12]),
        ({"lora_name": "a", "cache_salt": ""}, [12, 0, 12, 12]),
        ({"lora_name": ""}, [0, 12, 12, 0]),
        ({"lora_name": "b"}, [12, 12, 12, 12]),
        ({}, [0, 0, 0, 0]),
    ],
)
def test_what_all_of_the_scope_applies_to_goes(
    scope: dict[str, Any], left: list[int], groups: Any
) -> None:
    kv = manager(64, groups=groups)
    three(kv)
    before = kv.counts()
    freed = kv.reset_prefix_cache(**scope)
    spaces = [{}, {"lora_name": "a"}, {"lora_name": "a", "cache_salt": "s"}, {"cache_salt": "s"}]
    assert [found(kv, **space) for space in spaces] == left
    assert kv.counts().free == before.free + freed
    assert (freed > 0) == (left != [12] * 4)
    kv.check_integrity()


@pytest.mark.scenario("F30")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_the_log_says_it_and_redriven_says_the_same(index: str) -> None:
    kv = manager(32, event_log=True, index=index)
    events = BlockEvents(4)
    three(kv)
    cached(kv, [7] * 8, session=3)
    events.feed(kv.log.take())
    kv.reset_prefix_cache(lora_name="a", cache_salt="s")
    kv.reset_prefix_cache(session=3)
    log = kv.log.take()
    assert [e.kind for e in log].count(EventKind.FORGET) == 5
    told = events.feed(log)
    assert {type(event).__name__ for event in told} == {"BlockRemoved"}
    assert sum(len(getattr(event, "keys", ())) for event in told) == 5

    def run(kv: KVCacheManager) -> None:
        three(kv)
        live = kv.allocate(TEXT, lora_name="a").seq
        kv.reset_prefix_cache(lora_name="a")
        kv.commit(live, 13)
        cached(kv, [7] * 8, session=3)
        kv.reset_prefix_cache(session=3)
        kv.reset_prefix_cache(cache_salt="s", lora_name="")
        kv.release(live)

    first, fresh = (manager(32, event_log=True, index=index) for _ in range(2))
    run(first)
    log = first.log.take()
    redrive(log, fresh)
    assert fresh.counts() == first.counts()
    rebuilt = Rebuild(32, 4)
    rebuilt.feed(log)
    assert rebuilt.counts() == first.counts()


@pytest.mark.scenario("F30")
def test_misses_say_that_it_was_cleared() -> None:
    kv = manager(16)
    cached(kv, TEXT, lora_name="a")
    kv.reset_prefix_cache(lora_name="a")
    seq = kv.allocate(TEXT, lora_name="a").seq
    miss = kv.stats.miss_reason(seq)
    assert miss is not None
    assert miss.reason.name == "CLEARED"


@pytest.mark.scenario("F30")
def test_arguments_are_checked() -> None:
    kv = manager(4)
    wrongs: tuple[dict[str, Any], ...] = (
        {"lora_name": 5},
        {"cache_salt": b"x"},
        {"session": 1.5},
        {"session": -1},
    )
    for wrong in wrongs:
        with pytest.raises(UsageError):
            kv.reset_prefix_cache(**wrong)


@pytest.mark.scenario("F30")
def test_blocks_published_by_hand_are_of_no_adapter() -> None:
    kv = manager(8)
    blocks = kv.blocks
    key = np.array([[1, 2]], np.uint64)
    blocks.publish(int(blocks.take(1)[0]), key)
    kv.reset_prefix_cache(lora_name="")
    kv.reset_prefix_cache(cache_salt="")
    assert len(blocks.find(key)) == 1
    kv.check_integrity()


@pytest.mark.scenario("F30")
@pytest.mark.parametrize(("adapter", "left"), [("", 0), ("a", 3)])
@pytest.mark.parametrize("held", [True, False])
def test_a_block_published_by_hand_goes_with_the_block_that_it_follows(
    adapter: str, left: int, held: bool
) -> None:
    kv = manager(8)
    cached(kv, [1] * 5)
    blocks = kv.blocks
    head = blocks.find(kv.blocks.hash_blocks([1] * 4))
    blocks.touch(head)
    before, own = int(head[0]), np.array([[1, 2], [3, 4]], np.uint64)
    hand = [int(block) for block in blocks.take(2)]
    blocks.publish(hand[0], own[0], before)
    blocks.publish(hand[1], own[1], hand[0])
    if not held:
        blocks.free([before, *hand])
    assert kv.reset_prefix_cache(lora_name=adapter) == (0 if held else 3 - left)
    assert len(blocks.find(np.concatenate([kv.blocks.hash_blocks([1] * 4), own]))) == left
    kv.check_integrity()
    if held:
        blocks.free([before, *hand])
    assert kv.counts().cached == left
    kv.check_integrity()


@pytest.mark.scenario("F30", "F33")
def test_a_session_is_forgotten_by_its_name() -> None:
    kv = manager(16)
    cached(kv, TEXT, session="chat 1")
    cached(kv, [7] * 8, session="chat 2")
    assert kv.reset_prefix_cache(session="chat 1") == 3
    assert (found(kv), kv.lookup([7] * 9).tokens) == (0, 8)
