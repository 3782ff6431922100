"""Lower tiers and routers (T): the rows that control answers for, without bytes."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    Config,
    ConfigError,
    EventKind,
    HandleError,
    KVCacheManager,
    NeverFitsError,
    Request,
)

from .helpers import available, cached, evicted, found, manager, owners, state, words


@pytest.mark.scenario("T5", "T6")
def test_what_went_away_comes_back_in_other_pages_and_is_read_there() -> None:
    """A lower tier by hand: pages are numbered blocks, and their contents go out and come back."""
    kv = manager(4)
    pages = np.full((4, 4), -1, np.int64)
    store: dict[tuple[int, ...], list[int]] = {}
    text = [*range(100, 112), 5]

    def slots(seq: int, count: int) -> list[int]:
        out = np.zeros(count, np.int64)
        kv.slot_mapping([seq], [0], [count], out)
        return out.tolist()

    seq = kv.admit(text).seq
    pages.flat[slots(seq, 13)] = text
    kv.commit(seq, 13)
    before = kv.block_table(seq).tolist()
    keys = [tuple(key) for key in kv.hash_blocks(text).tolist()]
    lease = kv.lease(seq, 12)
    request = kv.preempt(seq)
    # While they are read, nobody gets these pages; one is free.
    assert kv.counts() == (1, 0, 3, 4)
    for key, page in zip(keys, before, strict=False):
        store[key] = pages[page].tolist()
    kv.done(lease)
    kv.collect(4)
    assert (available(kv), kv.counts().free) == (4, 4)
    # The free pages are handed out in another order than before.
    order = np.zeros(4, np.int32)
    kv.lend(order)
    kv.give_back(order[[2, 0, 3, 1]])
    pages[:] = -1
    grant = kv.admit(Request(text, num_external_tokens=12))
    assert grant.load is not None
    table = kv.block_table(grant.seq).tolist()
    assert table != before
    for key, page in zip(keys, table, strict=False):
        pages[page] = store[key]
    assert kv.loaded(grant.load, 3) == []
    assert pages.flat[slots(grant.seq, 12)].tolist() == text[:12]
    assert sum(kv.counts()[:3]) == 4
    assert len(request) == 13
    kv.check_integrity()


@pytest.mark.scenario("T11", "T14")
def test_decode_steps_end_what_prefill_began() -> None:
    kv = manager(6)
    seqs = [kv.admit([n] * 8).seq for n in (1, 2)]
    for seq in seqs:
        kv.commit(seq, 8)
    locks = [kv.lease(seq, 8) for seq in seqs]
    kv.release(seqs.pop())
    assert available(kv) == 2
    with pytest.raises(CapacityError):
        kv.admit([3] * 12)
    # No prefill comes any more: the tickets of the copies come back with the decode steps.
    for done in locks:
        kv.step(done=[done], append=seqs, tokens=[7])
        with pytest.raises(HandleError):
            kv.done(done)
    assert available(kv) == 3
    assert owners(kv, int(kv.block_table(seqs[0])[0])) == 1
    kv.admit([3] * 12)
    kv.check_integrity()


@pytest.mark.scenario("T24", "U-4")
@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu", "lfuda", "slru"])
def test_what_cannot_be_helped_by_eviction_evicts_nothing(policy: str) -> None:
    kv = manager(8, policy=policy)
    held = kv.admit([9] * 12).seq
    cached(kv, words(1, 2, 3, size=4))
    before = state(kv, [held])
    for _ in range(50):
        for refused in (
            lambda: kv.admit([8] * 24),
            lambda: kv.admit([*words(1, 2, 3, size=4), *[8] * 12]),
            lambda: kv.append(held, [8] * 24),
            lambda: kv.lend(np.zeros(6, np.int32)),
            lambda: kv.admit([8] * 33),
        ):
            with pytest.raises((CapacityError, NeverFitsError)):
                refused()
    assert state(kv, [held]) == before
    assert (evicted(kv), found(kv, words(1, 2, 3, size=4))) == (0, 12)


@pytest.mark.scenario("T29")
def test_events_of_one_salt_name_no_block_of_another() -> None:
    kv = manager(16, event_log=True)
    keys: dict[str, list[tuple[int, ...]]] = {}
    for salt in ("", "s1", "s2"):
        cached(kv, range(12), cache_salt=salt)
        events = kv.take_events()
        stored = events["kind"] == EventKind.STORE
        keys[salt] = [tuple(key) for key in events["key"][stored].tolist()]
        asked = kv.hash_blocks(list(range(12)), cache_salt=salt).tolist()
        assert keys[salt] == [tuple(key) for key in asked]
        # The later blocks, too: each follows one of its own tenant.
        own = {*events["block"][stored].tolist(), 2**32 - 1}
        assert set(events["value"][stored].tolist()) <= own
    assert len({key for told in keys.values() for key in told}) == 9


@pytest.mark.scenario("T30")
def test_two_chains_that_end_alike_have_other_keys() -> None:
    kv = manager(16)
    one, two = words(1, 5, 9, size=4), words(2, 5, 9, size=4)
    cached(kv, one)
    assert kv.lookup([*two, 0]).tokens == 0
    same = (kv.hash_blocks(one) == kv.hash_blocks(two)).all(axis=1)
    assert same.tolist() == [False, False, False]
    cached(kv, two)
    assert kv.counts().cached == 6


@pytest.mark.scenario("T31")
@pytest.mark.parametrize("copies", [1, 2])
def test_a_block_in_its_next_life_has_no_old_key(copies: int) -> None:
    kv = manager(2 * copies)
    seqs = [kv.admit(words(1, 2 + n, size=4), read_cache=n == 0).seq for n in range(copies)]
    for seq in seqs:
        kv.commit(seq, 8)
        kv.release(seq)
    kv.admit([9] * 8)
    # With a second copy the key leads there; with none it leads nowhere.
    assert found(kv, words(1, size=4)) == (4 if copies == 2 else 0)
    kv.check_integrity()


@pytest.mark.scenario("T32", "I6")
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_of_a_prompt_that_is_all_there_a_token_is_left(blocks: int) -> None:
    kv = manager(16)
    prompt = words(*range(blocks), size=4)
    cached(kv, prompt)
    grant = kv.admit(prompt)
    assert 1 <= len(prompt) - grant.cached_tokens <= 4


@pytest.mark.scenario("T36", "U-12")
def test_with_no_place_to_suspend_to_overload_is_computed_again_and_ends() -> None:
    """Every pool runs full without a host tier: who gives way starts over, and all come to an end.

    There is nothing to configure that would wait for a tier that is not there.
    """
    with pytest.raises(ConfigError, match="swap"):
        Config.load(env={}, cache={"swap": True})
    kv = manager(4)
    running = {kv.admit([n] * 4).seq: 12 for n in (1, 2, 3)}
    waiting: list[Request] = []
    for _ in range(100):
        for seq in list(running):
            if seq not in running:
                continue
            kv.commit(seq, kv.lengths(seq).slots)
            if kv.lengths(seq).slots >= running[seq]:
                kv.release(seq)
                del running[seq]
                continue
            while seq in running:
                try:
                    kv.append(seq, [7])
                    break
                except CapacityError:
                    victim = kv.preemption_order(list(running), "last-admitted")[0].seq
                    waiting.insert(0, kv.preempt(victim))
                    del running[victim]
        while waiting:
            try:
                grant = kv.admit(waiting[0])
            except CapacityError:
                break
            waiting.pop(0)
            running[grant.seq] = 12
        kv.check_integrity()
        if not running and not waiting:
            break
    assert not running
    assert not waiting
    assert kv.stats()["resumed"] > 0
    assert available(kv) == 4


@pytest.mark.scenario("T37", "MK-B11")
def test_a_value_of_zero_reaches_the_core_and_no_key_is_dropped() -> None:
    given = {"low": 0.5, "high": 0.6, "critical": 0.7, "reserve": 0}
    kv = KVCacheManager(Config.load(env={}, pressure=given))
    told = kv.options()
    assert told["reserve"] == 0
    kv = KVCacheManager(Config.load(env={}, pressure={**given, "reserve": 3}))
    assert kv.options()["reserve"] == 3
    # A priority of zero is the lowest there is, not "none given".
    low, high = (kv.admit([n] * 16, priority=n).seq for n in (0, 1))
    assert kv.preemption_order([high, low], "lowest-priority")[0].seq == low
    with pytest.raises(ConfigError, match="reserv"):
        Config.load(env={}, pressure={"reserved": 1})
