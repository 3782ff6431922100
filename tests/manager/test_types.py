"""Values of any other type, in every place that takes a word, a flag, a share or a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvframe import (
    Keep,
    KVCacheManager,
    KVFrameError,
    Request,
    Retention,
    RouterIndex,
    SlotCache,
    TokenRange,
    UsageError,
)
from kvframe.blocks import BlockPool
from kvframe.policies.tier import TierPolicy

from .helpers import cached, manager, state


class Mute:
    """Cannot even be shown."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("says nothing")


OTHERS: list[Any] = [1.5, 10**400, b"x", "\ud800", "y" * 5000, np.zeros((2, 2)), Mute(), [[1], [2]]]
"""None of them is a word that is known, a flag, a share, an item, or one of our own objects."""

FLAGS = ("read_cache", "write_cache", "resumed", "partial", "full_sequence_must_fit", "join")


def verbs(kv: KVCacheManager, seq: int) -> dict[str, Callable[[Any], object]]:
    def flag(name: str) -> Callable[[Any], object]:
        options: dict[str, Any] = {}
        return lambda value: kv.admit([1], **options, **{name: value})

    return {
        **{name: flag(name) for name in FLAGS},
        "partial of a try": lambda value: kv.admit(Request([1]), partial=value),
        "resumed of a try": lambda value: kv.admit(Request([1]), resumed=value),
        "copy": lambda value: kv.fork(seq, upto=1, copy=value),
        "copy of a fork": lambda value: kv.fork(seq, copy=value),
        "mm_items": lambda value: kv.lookup([1], mm_items=value),
        "retention": lambda value: kv.admit([1], retention=value),
        "owner": lambda value: kv.pin([1], owner=value),
        "owner of pins": kv.pins,
        "owner of all": kv.unpin_all,
        "owner of a hint": lambda value: kv.hint(1, "pin", owner=value),
        "hint": lambda value: kv.hint(1, value),
        "keep": lambda value: kv.hint(1, "retain", keep=value),
        "form": kv.dump,
        "rule": lambda value: kv.preemption_order([seq], value),
        "usage": lambda value: kv.preempt_to(value, [seq]),
        "free": kv.collect,
        "block": kv.explain_block,
        "config": lambda value: KVCacheManager(value),
        "count": BlockPool(kv).take,
        "key": lambda value: BlockPool(kv).publish(0, value),
    }


WORDS = {"owner", "owner of pins", "owner of all", "owner of a hint"}


@pytest.mark.scenario("I13", "I3", "MK-B11")
@pytest.mark.parametrize("verb", [*verbs(manager(), 0)])
def test_a_value_of_another_type_is_named_and_changes_nothing(verb: str) -> None:
    kv = manager()
    cached(kv, [1] * 9)
    seq = kv.admit([2, 3]).seq
    kv.commit(seq, 2)
    before = state(kv, [seq])
    for value in OTHERS:
        if verb in WORDS and isinstance(value, str) and value != "\ud800":
            continue
        if verb == "count" and isinstance(value, int):
            continue  # More blocks than there are, however many: a want of room.
        if verb == "extras" and isinstance(value, bytes | str | list | np.ndarray):
            value = 5
        with pytest.raises(KVFrameError, match=verb.split()[0]) as caught:
            verbs(kv, seq)[verb](value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250
        kv.check_integrity()
    assert state(kv, [seq]) == before


@pytest.mark.scenario("I13", "I3")
def test_no_share_preempts_nobody() -> None:
    kv = manager()
    seqs = [kv.admit([number] * 5).seq for number in range(3)]
    with pytest.raises(UsageError, match="usage = None: must be a share of the pool, 0 to 1"):
        kv.preempt_to(None, seqs)  # type: ignore[arg-type]
    assert kv.live().tolist() == seqs


@pytest.mark.scenario("I13", "IL-B10")
def test_flags_and_numbers_of_numpy_are_taken() -> None:
    kv = manager()
    options: dict[str, Any] = {
        "read_cache": np.True_,
        "partial": np.False_,
        "priority": np.int16(-3),
    }
    grant = kv.admit([1, 2, 3], **options)
    kv.commit(grant.seq, np.int64(3))  # type: ignore[arg-type]
    fork = kv.fork(grant.seq, upto=np.uint8(3), copy=np.True_)  # type: ignore[arg-type]
    assert kv.lengths(fork).slots == 3
    asked = Keep(np.int64(80), np.uint32(5), np.int8(1))  # type: ignore[arg-type]
    ranges = [TokenRange(np.int64(0), np.uint16(2), asked)]  # type: ignore[arg-type]
    kv.release(kv.admit([7] * 5, retention=Retention(ranges)).seq)
    assert "block 0" in kv.explain_block(np.int32(0))  # type: ignore[arg-type]
    assert "block 1" in kv.explain_block(True)
    assert BlockPool(kv).take(True).size == 1
    kv.check_integrity()


@pytest.mark.scenario("I13", "MK-B11")
def test_a_length_beside_the_tokens_is_theirs() -> None:
    kv = manager()
    for number in (1, 4, 2**32 - 1):
        with pytest.raises(UsageError, match=f"num_tokens = {number}: the prompt has 3 tokens"):
            kv.admit([1, 2, 3], num_tokens=number)
    assert kv.admit([1, 2, 3], num_tokens=3).prompt_tokens == 3


@pytest.mark.scenario("ST28", "I10")
def test_what_is_asked_for_once_serves_many_requests() -> None:
    """A generator of ranges used to be empty for the second request."""
    asked = Retention(TokenRange(0, None, Keep(priority)) for priority in (60, 90))
    kv = manager()
    for first in (1, 2):
        grant = kv.admit([first] * 5, retention=asked)
        kv.commit(grant.seq, 5)
        block = int(kv.block_table(grant.seq)[0])
        kv.release(grant.seq)
        assert kv.block_priority(block).priority == 90
    kv.check_integrity()


KEEPS: dict[str, Callable[[Any], object]] = {
    "priority": Keep,
    "then": lambda value: Keep(1, then=value),
    "duration": lambda value: Keep(1, value),
    "decay": lambda value: Keep(1, decay=value),
    "range": lambda value: TokenRange(value, None, Keep(1)),
    "range end": lambda value: TokenRange(0, value, Keep(1)),
    "keep": lambda value: TokenRange(0, None, value),
    "ranges": Retention,
    "decode": lambda value: Retention(decode=value),
}


@pytest.mark.scenario("I13", "ST28")
@pytest.mark.parametrize("name", KEEPS)
def test_what_a_request_asks_for(name: str) -> None:
    for value in (*OTHERS, np.timedelta64(1)):
        with pytest.raises(UsageError, match=name.split()[0]) as caught:
            KEEPS[name]([value] if name == "ranges" else value)
        assert len(str(caught.value)) < 250


def others() -> dict[str, Callable[[Any], object]]:
    slots, router = SlotCache(2, 8), RouterIndex(2)
    tier: TierPolicy[Any] = TierPolicy.named("lru", 4)
    tier.insert("a")
    return {
        "use": lambda value: slots.admit([1], use=value),
        "use of an insert": lambda value: tier.insert("b", use=value),
        "use of a hit": lambda value: tier.hit(["a"], value),
        "key": lambda value: tier.insert([value]),
        "keys": lambda value: tier.claim([[value]]),
        "keys of a release": lambda value: tier.release([[value]]),
        "keys of a hit": lambda value: tier.hit([[value]]),
        "keys of a refresh": lambda value: tier.refresh([[value]]),
        "keys that are missed": lambda value: tier.missed([[value]]),
        "keys of a remove": lambda value: tier.remove([[value]]),
        "evicted": lambda value: tier.remove(["a"], evicted=value),
        "protected": lambda value: tier.victims(0, [[value]]),
        "n": lambda value: tier.take(value, bool),
        "eligible": lambda value: tier.take(1, value),
        "resolved": TierPolicy,
        "name": lambda value: TierPolicy(tier.resolved, name=value),
        "name of key": lambda value: TierPolicy(tier.resolved, name=lambda _: [value]).insert("a"),  # type: ignore[arg-type, return-value]
        "block_size": lambda value: TierPolicy(tier.resolved, block_size=value),
        "block_size of an index": RouterIndex,
        "capacity": lambda value: RouterIndex(2, capacity=value),
        "worker to add": lambda value: router.add_worker([value]),  # type: ignore[arg-type]
        "worker of an array": lambda value: router.add_worker(np.array(3)),  # type: ignore[arg-type]
        "worker to remove": lambda value: router.remove_worker([value]),  # type: ignore[arg-type]
        "worker": lambda value: router.keeps([value], 0),  # type: ignore[arg-type]
        "group": lambda value: router.keeps(1, [value]),  # type: ignore[arg-type]
        "kind": lambda value: router.keeps(1, 0, [value]),  # type: ignore[arg-type]
        "block_hashes": lambda value: router.stored(1, iter([value]), None, [1], block_size=3),  # type: ignore[arg-type]
        "block_size of an event": lambda value: router.stored(1, [1], block_size=[value]),  # type: ignore[arg-type]
    }


@pytest.mark.scenario("I13")
@pytest.mark.parametrize("name", [*others()])
def test_what_else_takes_things_of_a_type(name: str) -> None:
    calls = others()
    for value in OTHERS:
        if name == "n" and isinstance(value, int):
            continue  # Up to as many as that.
        with pytest.raises(UsageError, match=name.split()[0]) as caught:
            calls[name](value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250


@pytest.mark.scenario("I13")
def test_a_key_that_is_no_text_is_a_key() -> None:
    tier: TierPolicy[str] = TierPolicy.named("arc", 2)
    for key in ("\ud800", "\udfff"):
        tier.insert(key)
        tier.release([key])
    assert tier.victims(1) == ["\ud800"]
    tier.check_integrity()
