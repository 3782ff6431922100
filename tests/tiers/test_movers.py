"""Copies that are queued and not waited for, as a card's are, and pools that are not NumPy's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvframe import UsageError
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, NumpyPool
from kvframe.pages.device import DevicePool, plane_addresses
from kvframe.tiers import Inline, Part, Tiers
from kvframe.tiers.moves import Moves

from ..pages.emulated import Emulated
from .helpers import BLOCK, SHAPE, Engine, host, kv_of, text


class Queued:
    """Copies that run only when their event is looked at for the second time.

    Attributes:
        waiting: Copies that have not run.
    """

    def __init__(self, pool: NumpyPool, memory: NumpyPool) -> None:
        self.pool, self.memory = pool, memory
        self.waiting = 0

    def out(self, pages: Any, host_pages: Any) -> Later:
        return self._queue(lambda: self.pool.copy_to(self.memory, pages, host_pages))

    def bring(self, host_pages: Any, pages: Any) -> Later:
        return self._queue(lambda: self.memory.copy_to(self.pool, host_pages, pages))

    def _queue(self, copy: Callable[[], None]) -> Later:
        self.waiting += 1

        def run() -> None:
            self.waiting -= 1
            copy()

        return Later(run)


class Later:
    def __init__(self, run: Callable[[], None]) -> None:
        self.run, self.looks = run, 0

    @property
    def done(self) -> bool:
        self.looks += 1
        if self.looks == 2:
            self.run()
        return self.looks >= 2


@pytest.mark.scenario("S28", "T4", "I12")
def test_queued_copies_are_polled_and_never_waited_for() -> None:
    engine = Engine([host()], blocks=12)
    memory = NumpyPool(Layout.of(BLOCK_FIRST, SHAPE, 16))
    mover = Queued(engine.pools[0], memory)
    engine.tiers.close()
    engine.tiers = Tiers(
        engine.kv,
        engine.pools,
        host=[memory],
        movers=[mover],
        worker=lambda _: Inline(),
        poison=True,
        verify=True,
    )
    one = text(1, 14)
    grant = engine.start(one)
    engine.compute(grant.seq)
    assert engine.tiers.offload(grant.seq) == 3
    engine.kv.release(grant.seq)
    assert (mover.waiting, engine.kv.counts().referenced) == (1, 3)
    engine.tiers.poll()
    assert engine.tiers.lookup(one).tiers == {"host": 0}
    engine.settle()
    assert (mover.waiting, engine.kv.counts().referenced) == (0, 0)
    assert engine.tiers.lookup(one).tiers == {"host": 12}
    engine.forget()
    grant = engine.run(one)
    assert grant.external_tokens == 12
    grant = engine.start(one)
    engine.compute(grant.seq)
    swapped = engine.tiers.swap_out(grant.seq)
    engine.settle()
    engine.forget()
    grant = engine.tiers.swap_in(swapped)
    engine.texts[grant.seq] = one
    engine.settle()
    assert engine.compute(grant.seq) == 0
    engine.tiers.check_integrity()


class ByLayer(Queued):
    """A mover that also brings layer by layer; each layer's event has one of its own."""

    def onboard(self, host_pages: Any, pages: Any) -> list[Later]:
        whole = self.bring(host_pages, pages)
        return [Later(lambda: None), whole]


def test_a_load_is_arriving_layer_by_layer_before_it_has_landed() -> None:
    engine = Engine([host()], blocks=12)
    memory = NumpyPool(Layout.of(BLOCK_FIRST, SHAPE, 16))
    engine.tiers.close()
    engine.tiers = Tiers(
        engine.kv,
        engine.pools,
        host=[memory],
        movers=[ByLayer(engine.pools[0], memory)],
        worker=lambda _: Inline(),
        layerwise=True,
    )
    one = text(1, 14)
    engine.run(one)
    engine.forget()
    grant = engine.start(one)
    assert engine.tiers.arriving(grant.seq) is None
    engine.tiers.poll()  # the pages are checked, and their copies queued
    arriving = engine.tiers.arriving(grant.seq)
    assert arriving is not None
    assert (arriving.upto, len(arriving.layers)) == (12, SHAPE.layers)
    assert engine.kv.lengths(grant.seq).committed == 0
    engine.kv.extend(grant.seq, 14)  # what comes behind is computed meanwhile
    engine.settle()
    assert engine.tiers.arriving(grant.seq) is None
    assert engine.compute(grant.seq) == 2
    engine.kv.release(grant.seq)
    engine.tiers.check_integrity()


def test_layer_by_layer_needs_movers_that_can() -> None:
    engine = Engine([host()], blocks=12)
    engine.tiers.close()
    with pytest.raises(UsageError, match="needs movers that have an onboard"):
        Tiers(engine.kv, engine.pools, layerwise=True)


class Full(Queued):
    """A mover that cannot queue now and then."""

    full = True

    def _queue(self, copy: Callable[[], None]) -> Later:
        if self.full:
            raise MemoryError("no room in the ring")
        return super()._queue(copy)


@pytest.mark.scenario("T1", "T4", "T11")
def test_a_copy_that_cannot_be_queued_has_failed_and_holds_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine([host()], blocks=12, parts=2)
    memory = [NumpyPool(Layout.of(BLOCK_FIRST, SHAPE, 16)) for _ in range(2)]
    first, second = Queued(engine.pools[0], memory[0]), Full(engine.pools[1], memory[1])
    engine.tiers.close()
    engine.tiers = Tiers(
        engine.kv,
        [Part(pool) for pool in engine.pools],
        host=memory,
        movers=[first, second],
        worker=lambda _: Inline(),
    )
    one = text(1, 14)
    grant = engine.start(one)
    engine.compute(grant.seq)
    assert engine.tiers.offload(grant.seq) == 3
    engine.settle()
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)
    swapped = engine.tiers.swap_out(grant.seq)
    engine.settle()
    assert (swapped.state, engine.kv.counts().referenced) == ("failed", 0)
    said = (
        "pages are not copied between the pool and host memory: MemoryError('no room in the ring')"
    )
    assert [record.message for record in caplog.records] == [said]
    second.full = False
    engine.run(one)
    assert caplog.records[-1].message == "pages are copied between the pool and host memory again"
    engine.forget()
    second.full = True
    grant = engine.start(one)
    assert engine.tiers.drain().rewound == [grant.seq]
    assert engine.compute(grant.seq) == 14
    assert first.waiting == 0
    engine.kv.release(grant.seq)
    engine.tiers.check_integrity()
    assert engine.tiers.host.index.counts()[2:] == (0, 0)


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_pool_on_a_device_is_read_and_written_through_its_bytes() -> None:
    engine = Engine([host()], blocks=12)
    layout = Layout.of(LAYER_FIRST, SHAPE, 12)
    data = np.zeros(layout.nbytes, np.uint8)
    pool = DevicePool(Emulated(), layout, plane_addresses(layout, data.ctypes.data), data)
    engine.tiers.close()
    tiers = Tiers(engine.kv, [Part(pool)], worker=lambda _: Inline())
    one = text(1, 13)
    grant = tiers.allocate(one)
    rows = [kv_of(one[: at + 1]) for at in range(12)]
    pages = np.stack(rows).reshape(3, BLOCK, *rows[0].shape).transpose(0, 2, 3, 1, 4, 5)
    table = engine.kv.block_table(grant.seq)
    pool.put(table[:3], np.ascontiguousarray(pages).reshape(3, -1))
    engine.kv.commit(grant.seq, 13)
    tiers.offload(grant.seq)
    tiers.drain()
    engine.kv.release(grant.seq)
    engine.kv.reset_prefix_cache()
    pool.poison(range(12))
    grant = tiers.allocate(one)
    tiers.drain()
    found = pool.get(engine.kv.block_table(grant.seq)[:3])
    assert np.array_equal(found, np.ascontiguousarray(pages).reshape(3, -1))


def test_who_raises_at_the_end_of_a_copy_takes_no_other_with_it() -> None:
    """A warning that is an error, an interrupt: the next poll goes on with the others."""
    engine = Engine([host()], blocks=12)
    memory, worker = NumpyPool(Layout.of(BLOCK_FIRST, SHAPE, 16)), Inline()
    pool = engine.pools[0]
    moves = Moves([Part(pool)], [memory], worker, [Queued(pool, memory)])
    told: list[int | Exception] = []

    def raises(good: int | Exception) -> None:
        raise RuntimeWarning("as an error")

    for page, then in enumerate((raises, told.append)):
        one = np.array([page])
        moves.bring(one, [one], lambda: 1, then)
    worker.poll()
    moves.poll()
    with pytest.raises(RuntimeWarning):
        moves.poll()
    assert (moves.poll(), told, moves.busy) == (1, [1], 0)
