"""Values that no argument takes: an error that names it, on one line, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    StaleHandleError,
    TokenRange,
    UsageError,
)
from kvframe.flat import Access, TierPolicy

from .helpers import cached, manager, state


class Mute:
    """Cannot even be shown."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("says nothing")


SURROGATE = "\ud800"
"""What JSON can bring and UTF-8 cannot say."""

THINGS: list[Any] = [1.5, 10**400, b"x", SURROGATE, "y" * 5000, np.zeros((2, 2)), Mute(), [[1]]]
"""None of them is a number, a flag, a share, or one of our own objects."""
NUMBERS = [-1, 2**64, None, *THINGS]
FLAGS = [1, "yes", None, *THINGS]
WORDS = [None, 3, 1.5, b"x", SURROGATE, np.zeros((2, 2)), Mute(), [[1]]]
ITEMS = [[(5, 2, b"x")], [(2, 2, b"x")], [(-1, 2, b"x")], [(0, 2**32, b"x")], [(0, 2, "x")]]
ITEMS += [[(0, 2)], [3], 5, 1.5, Mute()]


class World(NamedTuple):
    """What has verbs."""

    kv: KVCacheManager
    seq: int
    slots: SlotCache
    router: RouterIndex
    tier: TierPolicy[Any]


def world() -> World:
    kv = manager()
    cached(kv, [1] * 9)
    seq = kv.allocate([2, 3]).seq
    kv.commit(seq, 2)
    tier: TierPolicy[Any] = TierPolicy.named("lru", 4)
    tier.insert("a")
    return World(kv, seq, SlotCache(2, 8), RouterIndex(2), tier)


def option(name: str) -> Callable[[World, Any], object]:
    def ask(w: World, value: Any) -> object:
        options: dict[str, Any] = {name: value}
        return w.kv.allocate([1], **options)

    return ask


FLAG_OPTIONS = ("read_cache", "write_cache", "resumed", "partial", "full_sequence_must_fit", "join")

Table = dict[str, tuple[Callable[[World, Any], object], list[Any]]]
"""By what an error must name: the call, and what it does not take."""

OF_A_MANAGER: Table = {
    **{name: (option(name), FLAGS) for name in FLAG_OPTIONS},
    **{name: (option(name), WORDS) for name in ("cache_salt", "lora_name")},
    **{name: (option(name), [-1, 2**64]) for name in ("chunk", "session")},
    "priority": (option("priority"), [2**40, *THINGS]),
    "num_tokens": (lambda w, v: w.kv.allocate(None, num_tokens=v), [-1, 2**32]),
    "partial of a try": (lambda w, v: w.kv.allocate(Request([1]), partial=v), THINGS),
    "resumed of a try": (lambda w, v: w.kv.allocate(Request([1]), resumed=v), THINGS),
    "copy": (lambda w, v: w.kv.fork(w.seq, upto=1, copy=v), FLAGS),
    "copy of a fork": (lambda w, v: w.kv.fork(w.seq, copy=v), THINGS),
    "encoder": (lambda w, v: w.kv.lookup([1], encoder=v), [-1, 1.5, None, "y", object()]),
    "mm_items": (lambda w, v: w.kv.lookup([1] * 8, mm_items=v), ITEMS),
    "mm_items of a request": (lambda w, v: w.kv.allocate([1] * 8, mm_items=v), ITEMS),
    "mm_items of keys": (lambda w, v: w.kv.blocks.hash_blocks([1] * 8, mm_items=v), ITEMS),
    "retention": (option("retention"), THINGS),
    "seq": (lambda w, v: w.kv.append_placeholders(v), NUMBERS),
    "seq to release": (lambda w, v: w.kv.release(v), [-1, 2**64]),
    "start": (lambda w, v: w.kv.block_table(w.seq, start=v), NUMBERS),
    "group": (lambda w, v: w.kv.block_table(w.seq, v), [-1, 5]),
    "until": (lambda w, v: w.kv.extend(w.seq, v), [-1]),
    "length": (lambda w, v: w.kv.truncate(w.seq, v), [-1, 2**64]),
    "ticket": (lambda w, v: w.kv.done(v), [-1]),
    "upto": (lambda w, v: w.kv.commit(w.seq, v), [2**32, *NUMBERS]),
    "keys": (lambda w, v: w.kv.advance(w.seq, 2, keys=v), [3, "x", [3], [b"short"], *THINGS]),
    "computed": (lambda w, v: w.kv.advance(w.seq, 2, computed=v), [2**32, -1, 1.5, "x", object()]),
    "commit": (lambda w, v: w.kv.step(commit=v), [-1, 2**64, 1.5, "x", object()]),
    "version": (lambda w, v: w.kv.set_weight_version(v), WORDS),
    "request": (lambda w, v: w.kv.can_allocate(v), NUMBERS),
    "config": (lambda w, v: KVCacheManager(v), THINGS),
    "free": (lambda w, v: w.kv.evict_until(v), NUMBERS),
    "owner": (lambda w, v: w.kv.pins.pin([1], owner=v), WORDS[1:]),
    "owner of pins": (lambda w, v: w.kv.pins.held(v), WORDS[1:]),
    "owner of all": (lambda w, v: w.kv.pins.unpin_all(v), WORDS[1:]),
    "owner of a hint": (lambda w, v: w.kv.pins.hint(1, "pin", owner=v), WORDS[1:]),
    "pin": (lambda w, v: w.kv.pins.unpin(v), NUMBERS),
    "hint": (lambda w, v: w.kv.pins.hint(1, v), THINGS),
    "keep": (lambda w, v: w.kv.pins.hint(1, "retain", keep=v), THINGS),
    "callback": (lambda w, v: w.kv.pressure.add_callback(v), NUMBERS),
    "rule": (lambda w, v: w.kv.pressure.preemption_order([w.seq], v), THINGS),
    "usage": (lambda w, v: w.kv.pressure.preempt_to(v, [w.seq]), [None, *THINGS]),
    "form": (lambda w, v: w.kv.inspect.dump(v), THINGS),
    "block": (lambda w, v: w.kv.inspect.explain_block(v), NUMBERS),
    "count": (lambda w, v: w.kv.blocks.take(v), [-1, 1.5, None, b"x", "y", Mute(), [[1]]]),
    "key": (lambda w, v: w.kv.blocks.publish(0, v), THINGS),
}

OF_RETENTION: Table = {
    "priority": (lambda _, v: Keep(v), THINGS),
    "then": (lambda _, v: Keep(1, then=v), THINGS),
    "duration": (lambda _, v: Keep(1, v), [np.timedelta64(1), *THINGS]),
    "decay": (lambda _, v: Keep(1, decay=v), THINGS),
    "range": (lambda _, v: TokenRange(v, None, Keep(1)), THINGS),
    "range end": (lambda _, v: TokenRange(0, v, Keep(1)), THINGS),
    "keep": (lambda _, v: TokenRange(0, None, v), THINGS),
    "ranges": (lambda _, v: Retention([v]), THINGS),
    "decode": (lambda _, v: Retention(decode=v), THINGS),
}

PAST = [-(2**63) - 1, 2**64]
OF_OTHERS: Table = {
    "slots": (lambda _, v: SlotCache(v, 8), [2**32 - 2, *PAST]),
    "length": (lambda _, v: SlotCache(2, v), PAST),
    "least_copy": (lambda _, v: SlotCache(2, 8, least_copy=v), PAST),
    "use": (lambda w, v: w.slots.allocate([1], use=v), THINGS),
    "use of an insert": (lambda w, v: w.tier.insert("b", use=v), THINGS),
    "use of a hit": (lambda w, v: w.tier.hit(["a"], v), THINGS),
    "session": (lambda w, v: w.tier.insert("b", use=Access(session=v)), PAST),
    "priority of an access": (lambda w, v: w.slots.allocate([1], use=Access(priority=v)), PAST),
    "blocks": (lambda _, v: TierPolicy.named("lru", v), PAST),
    "depth": (lambda w, v: w.tier.insert("b", depth=v), PAST),
    "key": (lambda w, v: w.tier.insert([v]), THINGS),
    "keys": (lambda w, v: w.tier.acquire([[v]]), THINGS),
    "keys of a release": (lambda w, v: w.tier.release([[v]]), THINGS),
    "keys of a hit": (lambda w, v: w.tier.hit([[v]]), THINGS),
    "keys of a refresh": (lambda w, v: w.tier.refresh([[v]]), THINGS),
    "keys that are missed": (lambda w, v: w.tier.on_miss([[v]]), THINGS),
    "keys of a remove": (lambda w, v: w.tier.remove([[v]]), THINGS),
    "evicted": (lambda w, v: w.tier.remove(["a"], evicted=v), THINGS),
    "protected": (lambda w, v: w.tier.victims(0, [[v]]), THINGS),
    "n": (lambda w, v: w.tier.take(v, bool), [1.5, b"x", "y", Mute(), [[1]]]),
    "n of victims": (lambda w, v: w.tier.victims(v), PAST),
    "eligible": (lambda w, v: w.tier.take(1, v), THINGS),
    "resolved": (lambda _, v: TierPolicy(v), THINGS),
    "name": (lambda w, v: TierPolicy(w.tier.resolved, name=v), THINGS),
    "name of key": (
        lambda w, v: TierPolicy(w.tier.resolved, name=lambda _: [v]).insert("a"),  # type: ignore[arg-type, return-value]
        THINGS,
    ),
    "block_size": (lambda w, v: TierPolicy(w.tier.resolved, block_size=v), THINGS),
    "block_size of an index": (lambda _, v: RouterIndex(v), [*PAST, *THINGS]),
    "capacity": (lambda _, v: RouterIndex(2, capacity=v), [*PAST, *THINGS]),
    "worker": (lambda w, v: w.router.add_worker(v), [np.array(3), [1], *PAST]),
    "worker to remove": (lambda w, v: w.router.remove_worker([v]), THINGS),  # type: ignore[arg-type]
    "worker that keeps": (lambda w, v: w.router.keeps([v], 0), THINGS),  # type: ignore[arg-type]
    "group": (lambda w, v: w.router.keeps(1, [v]), THINGS),  # type: ignore[arg-type]
    "kind": (lambda w, v: w.router.keeps(1, 0, [v]), THINGS),  # type: ignore[arg-type]
    "block hash": (lambda w, v: w.router.stored(1, [v]), PAST),
    "block_hashes": (
        lambda w, v: w.router.stored(1, iter([v]), None, [1], block_size=3),  # type: ignore[arg-type]
        THINGS,
    ),
    "block_size of an event": (lambda w, v: w.router.stored(1, [1], block_size=[v]), THINGS),  # type: ignore[arg-type]
}


def refuses(name: str, table: Table) -> None:
    w = world()
    call, values = table[name]
    before = state(w.kv, [w.seq])
    for value in values:
        with pytest.raises(KVFrameError, match=name.split()[0]) as caught:
            call(w, value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250
    assert state(w.kv, [w.seq]) == before
    w.kv.check_integrity()
    w.tier.check_integrity()


@pytest.mark.scenario("I13", "I3", "MK-B11", "MK-9", "MK-B10")
@pytest.mark.parametrize("name", OF_A_MANAGER)
def test_a_manager_refuses(name: str) -> None:
    refuses(name, OF_A_MANAGER)


@pytest.mark.scenario("I13", "ST28")
@pytest.mark.parametrize("name", OF_RETENTION)
def test_what_a_request_keeps_is_refused(name: str) -> None:
    refuses(name, OF_RETENTION)


@pytest.mark.scenario("I13", "IL-B10")
@pytest.mark.parametrize("name", OF_OTHERS)
def test_slots_router_and_tier_policies_refuse(name: str) -> None:
    refuses(name, OF_OTHERS)


def test_an_allocation_in_place_of_its_handle_is_told_of() -> None:
    kv = manager()
    grant: Any = kv.allocate([1] * 5)
    for call in (kv.release, kv.block_table, kv.fork, lambda v: kv.commit(v, 5)):
        with pytest.raises(UsageError, match=r"seq = Allocation.*; did you mean its \.seq"):
            call(grant)
    with pytest.raises(UsageError, match=r"release must be .*; did you mean its \.seq"):
        kv.step(release=[grant])


def test_a_handle_is_told_as_it_is_printed() -> None:
    kv = manager()
    seq = kv.allocate([1] * 5).seq
    kv.release(seq)
    with pytest.raises(StaleHandleError, match=f"sequence {seq} was released"):
        kv.release(seq)
