"""Who calls a store, what becomes of its errors, and the end of it all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvframe import Request, TierError, UsageError
from kvframe.tiers import Swapped, Thread

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
    index = engine.tiers.below[0].index
    engine.tiers._demotion.write(1, index.prefix(index.stored()[-1][1]))
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
    assert [level.index.counts()[2:] for level in engine.tiers.levels] == [(0, 0), (0, 0)]
    engine.tiers.check_integrity()


class Refusing(Shelf):
    """A store that cannot be closed."""

    def close(self) -> None:
        self.calls.append("close")
        raise ConnectionError("the store is away")


def test_the_end_comes_once_and_reaches_every_store(tmp_path: Path) -> None:
    stores = [Refusing(), Refusing()]
    tiers = [host(16), below(), below(64, "disk", "disk", options={"path": str(tmp_path)})]
    engine = Engine([*tiers, below(name="last")], stores=stores, worker=Thread)
    grant = engine.start(text(1, 18))
    engine.compute(grant.seq)
    engine.tiers.offload(grant.seq)
    with pytest.raises(TierError, match=r"below cannot be closed: .* away; last cannot"):
        engine.tiers.close()
    engine.tiers.close()
    assert [shelf.calls[-1] for shelf in stores] == ["close", "close"]
    Engine([host(16), tiers[2]]).tiers.close()  # the folder is free again
    swapped = Swapped(Request([1]), 0, state="out")
    for call in (
        lambda: engine.tiers.allocate([1]),
        lambda: engine.tiers.prefetch([1]),
        lambda: engine.tiers.offload(grant.seq),
        lambda: engine.tiers.make_room(1),
        lambda: engine.tiers.swap_out(grant.seq),
        lambda: engine.tiers.swap_in(swapped),
        lambda: engine.tiers.set_weight_version("new"),
        engine.tiers.drain,
        engine.tiers.verify,
    ):
        with pytest.raises(UsageError, match="the tiers are closed"):
            call()
    assert engine.tiers.stats()["last"]["stored"] == 4
    engine.tiers.check_integrity()


class Unreadable(Shelf):
    """A store that loses its connection as it is asked what it has."""

    def recover(self, head: int) -> list[tuple[str, bytes]]:
        raise ConnectionError("the store is away")

    def close(self) -> None:
        self.calls.append("close")


def test_tiers_that_cannot_be_opened_leave_nothing_open(tmp_path: Path) -> None:
    disk = below(64, "disk", "disk", options={"path": str(tmp_path)})
    threads, store = threading.active_count(), Unreadable()
    with pytest.raises(TierError, match=r"recover\(\) raised ConnectionError: the store is away"):
        Engine([host(16), disk, below()], stores=[store], worker=Thread)
    with pytest.raises(TierError, match=r"make\(\) raised IndexError"):
        Engine([host(16), disk, below()], stores=[], worker=Thread)
    assert (store.calls, threading.active_count()) == (["close"], threads)
    Engine([host(16), disk, below()], stores=[Shelf()]).tiers.close()


class Terse(Shelf):
    """A store whose answers are too few."""

    def contains(self, names: Sequence[str]) -> list[bool]:
        return [True]


@pytest.mark.scenario("T23")
def test_an_answer_of_another_length_is_no_answer() -> None:
    engine = Engine([host(16), below(store="shared")], stores=[Terse()], parts=2)
    ahead = engine.tiers.prefetch(text(1, 18))
    engine.settle()
    assert (ahead.state, ahead.loaded) == ("done", 0)
    assert engine.tiers.stats()["below"]["errors"] == 1
    assert engine.tiers.stats()["below"]["corrupt"] == 0


class Keeping(Shelf):
    """A store that removes nothing."""

    def remove(self, names: Sequence[str]) -> None:
        raise ConnectionError("the store is away")


def test_what_a_store_could_not_remove_is_counted() -> None:
    engine = Engine([host(16), below(4)], stores=[Keeping()])
    engine.run(text(1, 18))
    engine.run(text(2, 18))
    engine.settle()
    assert engine.tiers.stats()["below"]["errors"] == 1
    assert engine.tiers.lookup(text(2, 18)).tiers["below"] == 16
