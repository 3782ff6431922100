"""Who calls a store, what becomes of its errors, and the end of it all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kvframe import TierError
from kvframe.tiers import Thread

from .helpers import Engine, Shelf, below, host, text


def test_a_store_is_called_by_its_own_worker_alone() -> None:
    """So that a store, or a compressor that keeps state, need not bear two threads."""
    stores = [Shelf(), Shelf()]
    tiers = [host(16), below(compression="zstd"), below(name="last")]
    engine = Engine(tiers, stores=stores, worker=Thread)
    engine.run(text(1, 18))
    engine.settle()
    assert engine.tiers.verify() == []
    engine.only_below()
    engine.run(text(1, 18))
    engine.tiers.close()
    assert [shelf.threads for shelf in stores] == [{"kvframe-below"}, {"kvframe-last"}]


def test_a_page_that_changed_in_a_store_is_found_on_its_way_further_down() -> None:
    stores = [Shelf(), Shelf()]
    tiers = [host(16), below(), below(name="last", admission="write-back")]
    engine = Engine(tiers, stores=stores)
    engine.run(text(1, 18))
    stores[0].flip(sorted(stores[0].objects)[0], 120)
    books = engine.tiers.below[0].books
    engine.tiers._write(1, books.prefix(books.stored()[-1][1]))
    engine.settle()
    told = engine.tiers.stats()
    assert (told["below"]["corrupt"], told["below"]["failed_loads"] > 0) == (1, True)
    assert told["last"]["errors"] == 0
    stores[0].fails = 1  # that it is away is no fault of the other
    with pytest.raises(TierError, match="below: the store is away"):
        engine.tiers.verify()
    engine.run(text(2, 18))
    assert engine.tiers.stats()["last"]["errors"] == 0
    engine.tiers.check_integrity()


class Cancelling(Shelf):
    """A store whose calls end as those of a cancelled task do: by no `Exception`."""

    error: type[BaseException] = asyncio.CancelledError

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        raise self.error("while it waited")


@pytest.mark.scenario("T1", "T11")
@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_a_store_that_raises_what_is_no_exception_is_a_miss(error: type[BaseException]) -> None:
    shelf = Cancelling()
    shelf.error = error
    engine = Engine([host(16), below()], stores=[shelf], worker=Thread)
    engine.run(text(1, 18))
    engine.only_below()
    grant = engine.start(text(1, 18))
    assert engine.tiers.drain().rewound == [grant.seq]
    assert engine.tiers.stats()["below"]["errors"] == 1
    assert engine.compute(grant.seq) == 18
    engine.tiers.close()


def test_an_interrupt_in_a_poll_that_works_itself_loses_no_transfer() -> None:
    shelf = Cancelling()
    shelf.error = KeyboardInterrupt
    engine = Engine([host(16), below()], stores=[shelf])
    engine.run(text(1, 18))
    engine.only_below()
    grant = engine.start(text(1, 18))
    with pytest.raises(KeyboardInterrupt):
        engine.tiers.poll()
    assert engine.tiers.drain().rewound == [grant.seq]
    assert [level.books.counts()[2:] for level in engine.tiers.levels] == [(0, 0), (0, 0)]
    engine.tiers.check_integrity()
