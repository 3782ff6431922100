"""Lower tiers and routers (T): the rows that control answers for, without bytes."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    Config,
    ConfigError,
    Request,
)

from .helpers import available, manager


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

    seq = kv.allocate(text).seq
    pages.flat[slots(seq, 13)] = text
    kv.commit(seq, 13)
    before = kv.block_table(seq).tolist()
    keys = [tuple(key) for key in kv.blocks.hash_blocks(text).tolist()]
    lease = kv.pins.lease(seq, 12)
    request = kv.preempt(seq)
    # While they are read, nobody gets these pages; one is free.
    assert kv.counts() == (1, 0, 3, 4)
    for key, page in zip(keys, before, strict=False):
        store[key] = pages[page].tolist()
    kv.done(lease)
    kv.evict_until(4)
    assert (available(kv), kv.counts().free) == (4, 4)
    # The free pages are handed out in another order than before.
    order = np.zeros(4, np.int32)
    kv.blocks.take(out=order)
    kv.blocks.free(order[[2, 0, 3, 1]])
    pages[:] = -1
    grant = kv.allocate(Request(text, num_external_tokens=12))
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


@pytest.mark.scenario("T36", "U-12")
def test_with_no_place_to_suspend_to_overload_is_computed_again_and_ends() -> None:
    """Every pool runs full without a host tier: who gives way starts over, and all come to an end.

    There is nothing to configure that would wait for a tier that is not there.
    """
    with pytest.raises(ConfigError, match="swap"):
        Config.load(env={}, cache={"swap": True})
    kv = manager(4)
    running = {kv.allocate([n] * 4).seq: 12 for n in (1, 2, 3)}
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
                    victim = kv.pressure.preemption_order(list(running), "last-admitted")[0].seq
                    waiting.insert(0, kv.preempt(victim))
                    del running[victim]
        while waiting:
            try:
                grant = kv.allocate(waiting[0])
            except CapacityError:
                break
            waiting.pop(0)
            running[grant.seq] = 12
        kv.check_integrity()
        if not running and not waiting:
            break
    assert not running
    assert not waiting
    assert kv.stats.counters()["resumed"] > 0
    assert available(kv) == 4
