"""Stores that refuse by what they answer, or never answer: drain, close and idle polls."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvframe import BusyError, TierConfig, TierError, UsageError
from kvframe.tiers import Inline, Thread

from .helpers import Engine, Shelf, below, host, text

LIMIT = 0.2
VERBS = ("put", "get", "remove", "contains", "keep")


class Counting(Shelf):
    """A store with every verb of its own, each of which is counted."""

    def remove(self, names: Sequence[str]) -> None:
        self._call("remove")
        super().remove(names)

    def contains(self, names: Sequence[str]) -> list[bool]:
        self._call("contains")
        return [name in self.objects for name in names]

    def keep(self, names: Sequence[str]) -> None:
        self._call("keep")


class NeverPuts(Counting):
    """Keeps nothing."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._call("put")
        return [False] * len(objects)


class Raises(Counting):
    """Fails whenever it is given something."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._call("put")
        raise ConnectionError("the store is away")


class Halves(Counting):
    """Keeps the first object of each batch."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        super().put(objects[:1])
        return [True] + [False] * (len(objects) - 1)


class Lies(Counting):
    """Says that it keeps what it does not."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._call("put")
        return [True] * len(objects)


class Clings(Counting):
    """Removes nothing, and says so."""

    def remove(self, names: Sequence[str]) -> None:
        self._call("remove")
        raise ConnectionError("read only")


class Short(Counting):
    """Answers for fewer objects than it was given."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._call("put")
        return []


class Full(Counting):
    """Keeps six objects."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 6


BAD = (NeverPuts, Raises, Halves, Lies, Clings, Short, Full)
SHAPES: dict[str, Callable[[], list[TierConfig]]] = {
    "write-through": lambda: [host(8, high=0.75, low=0.5), below(12)],
    "write-back": lambda: [host(8, high=0.75, low=0.5), below(12, admission="write-back")],
    "refuse": lambda: [host(16, high=0.75, low=0.5, when_full="refuse"), below(12)],
    "narrow": lambda: [host(8, in_flight=2), below(3, in_flight=2, high=0.9, low=0.5)],
    "shared": lambda: [host(8, high=0.75, low=0.5), below(12, store="shared")],
}


def work(engine: Engine) -> None:
    """Prompts of one and several pages, some again, each polled for and none waited for."""
    for seed in (1, 2, 3, 1, 4, 5, 2, 6):
        grant = engine.start(text(seed, 9 + 4 * (seed % 3)))
        engine.tiers.poll()
        engine.tiers.poll()
        engine.compute(grant.seq)
        with suppress(BusyError):  # the tier below lacks what would have to go
            engine.tiers.offload(grant.seq)
        engine.tiers.poll()
        engine.kv.release(grant.seq)


@pytest.mark.scenario("F13")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", BAD)
def test_an_idle_engine_calls_no_store_whatever_that_refuses(
    kind: type[Counting], shape: str
) -> None:
    shelf = kind()
    engine = Engine(SHAPES[shape](), stores=[shelf], blocks=24)
    work(engine)
    engine.settle()
    calls = len(shelf.calls)
    assert calls < 100
    for _ in range(100):
        engine.tiers.poll()
    assert shelf.calls[calls:] == []
    # Each time that it may be tried again costs one put, and no more than one of each other kind.
    for _ in range(10):
        engine.now += 4000
        before = len(shelf.calls)
        for _ in range(20):
            engine.tiers.poll()
        assert len(shelf.calls) - before < 10, shelf.calls[before:]
    engine.tiers.check_integrity()
    engine.tiers.close()


@pytest.mark.scenario("F13")
@pytest.mark.parametrize("kind", [NeverPuts, Raises, Short])
def test_a_refusal_backs_off_as_an_exception_does(kind: type[Counting]) -> None:
    shelf = kind()
    engine = Engine([host(32), below(32)], stores=[shelf], blocks=40)
    waits: list[int] = []
    for _ in range(7):
        before = shelf.calls.count("put")
        start = engine.now
        while shelf.calls.count("put") == before:
            engine.now += 50
            engine.run(text(len(waits), 9))
        waits.append(engine.now - start)
    assert waits[1:] == [100, 200, 400, 800, 1600, 3200]


@pytest.mark.scenario("F13")
@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("shape", SHAPES)
def test_drain_and_close_end_with_threads_and_a_real_clock(
    kind: type[Counting], shape: str
) -> None:
    shelf = kind()
    engine = Engine(SHAPES[shape](), stores=[shelf], blocks=24, worker=Thread, clock=None)
    work(engine)
    engine.settle()
    engine.tiers.close()
    assert len(shelf.calls) < 200


@pytest.mark.scenario("F13")
@pytest.mark.parametrize("gone", ["removed", "a file", "read only"])
def test_a_folder_that_is_gone_holds_up_nothing(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "pages"
    tiers = [
        host(8, high=0.75, low=0.5),
        below(64, "disk", options={"path": str(folder), "fsync": False}, admission="write-back"),
    ]
    engine = Engine(tiers, blocks=24, worker=Thread, clock=None)
    shutil.rmtree(folder)
    if gone == "a file":
        folder.write_text("a file stands here")
    elif gone == "read only":
        folder.mkdir()
        for shard in range(256):
            (folder / f"{shard:02x}").write_text("no folder")
    work(engine)
    engine.settle()
    told = engine.tiers.stats()
    assert told["below"]["failed_stores"] < 60
    assert told["below"]["stored"] == 0
    engine.tiers.close()


class Stalled(Shelf):
    """A store whose named calls never answer, until it is told to."""

    def __init__(self, verb: str, objects: dict[str, bytes] | None = None) -> None:
        super().__init__(objects=objects)
        self.verb, self.go_on = verb, threading.Event()
        self.closed = False

    def _wait(self, verb: str) -> None:
        if verb == self.verb:
            assert self.go_on.wait(30)

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._wait("put")
        return super().put(objects)

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        self._wait("get")
        return super().get(names)

    def remove(self, names: Sequence[str]) -> None:
        self._wait("remove")
        super().remove(names)

    def contains(self, names: Sequence[str]) -> list[bool]:
        self._wait("contains")
        return [name in self.objects for name in names]

    def keep(self, names: Sequence[str]) -> None:
        self._wait("keep")

    def close(self) -> None:
        self._wait("close")
        self.closed = True


@pytest.mark.scenario("F13")
@pytest.mark.parametrize("verb", [*VERBS, "close"])
def test_a_stalled_store_holds_up_drain_and_close_for_their_limit(verb: str) -> None:
    objects: dict[str, bytes] = {}
    Engine([host(), below(4, store="shared")], stores=[Shelf(objects=objects)]).run(text(1, 17))
    shelf, other = Stalled(verb, objects), Shelf()
    tiers = [host(16), below(4, store="shared"), below(name="last")]
    engine = Engine(tiers, stores=[shelf, other], worker=Thread, blocks=400)
    if verb in ("get", "keep"):
        engine.start(text(1, 17))
    elif verb != "close":
        engine.tiers.prefetch(text(5, 9))
    seed = 4
    for seed in (2, 3, 4) if verb != "close" else ():
        grant = engine.start(text(seed, 17))
        engine.compute(grant.seq)
        engine.tiers.offload(grant.seq)
    told = ""
    while verb != "close" and not told:  # removals begin once something has been put
        try:
            engine.tiers.drain(limit=LIMIT)
        except TierError as error:
            told = str(error)
        seed += 1
        grant = engine.start(text(seed, 17))
        engine.compute(grant.seq)
        engine.tiers.offload(grant.seq)
        engine.now += 2000
    assert re.match(r"nothing has ended for 0\.2 s: .*\d+ calls? of below|^$", told)
    left = "nothing has ended.*; " if told else ""
    given_up = r".*below does not answer and is not closed: \d+ calls? given up"
    with pytest.raises(TierError, match=left + given_up):
        engine.tiers.close(limit=LIMIT)
    engine.tiers.close(limit=LIMIT)
    assert not shelf.closed
    with pytest.raises(UsageError, match="closed"):
        engine.tiers.poll()
    shelf.go_on.set()
    for worker in engine.tiers.workers:
        assert isinstance(worker, Thread)
        worker._thread.join(10)
        assert not worker._thread.is_alive()


def test_what_a_drain_that_gave_up_had_seen_is_told_by_the_next_poll() -> None:
    shelf = Stalled("put")
    engine = Engine([host(16), below()], stores=[shelf], worker=Thread)
    seq = engine.start(text(1, 9)).seq
    engine.compute(seq)
    engine.tiers.offload(seq)
    engine.tiers.poll(1)
    engine.kv.reset_prefix_cache()
    grant = engine.start(text(1, 9))  # from host memory, which answers
    with pytest.raises(TierError, match="nothing has ended"):
        engine.tiers.drain(limit=LIMIT)
    assert engine.tiers.poll().landed == [grant.seq]
    shelf.go_on.set()
    engine.settle()
    engine.tiers.close()


def test_a_limit_is_a_number_of_seconds() -> None:
    engine = Engine([host(16)])
    for call in (engine.tiers.drain, engine.tiers.close, engine.tiers.verify):
        for bad in (0, -1, "1", None, True, float("nan")):
            given: Any = bad
            with pytest.raises(
                UsageError, match=r"limit = .*: must be a number of seconds above 0"
            ):
                call(given)
    engine.tiers.close()


def test_a_worker_that_is_left_does_nothing_more() -> None:
    done: list[int] = []
    thread, go_on = Thread("test"), threading.Event()
    for job in (lambda: go_on.wait(10), lambda: done.append(1)):
        thread.submit(job, lambda _: None)
    thread.leave()
    go_on.set()
    thread._thread.join(10)
    assert (done, thread._thread.is_alive()) == ([], False)
    inline = Inline()
    inline.submit(lambda: done.append(1), lambda _: None)
    inline.leave()
    assert (inline.poll(), inline.busy, done) == (0, 0, [])


def test_tiers_are_shown_on_one_line() -> None:
    world = Engine([host()])
    assert repr(world.tiers) == "Tiers(host: 0 loading)"
    with pytest.raises(AttributeError, match=r"Tiers\.admit is called Tiers\.allocate now"):
        world.tiers.admit  # type: ignore[attr-defined]  # noqa: B018
    world.tiers.close()
    assert repr(world.tiers) == "Tiers(host: closed)"
