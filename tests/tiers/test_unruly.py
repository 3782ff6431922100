"""Stores that refuse, lie, hang, lose and fail at random, for many operations of an engine.

KVFRAME_TIER_STEPS says how many; `make soak` takes 100,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from kvframe import BusyError, CapacityError, TierError
from kvframe.tiers import Inline

from ..amounts import amount, first_seed
from .helpers import BLOCK, Engine, Shelf, below, host
from .test_soak import PROMPTS, page_of

STEPS = amount(800, 800, "KVFRAME_TIER_STEPS")
MOODS = ("well", "refuses", "refuses some", "lies", "loses", "fails", "hangs", "short", "full")


class Unruly(Shelf):
    """A store that changes its mind."""

    def __init__(self, dice: Random, objects: dict[str, bytes] | None = None) -> None:
        super().__init__(objects=objects)
        self.dice, self.mood = dice, "well"

    def _meet(self, verb: str) -> None:
        self.calls.append(verb)
        if self.mood == "fails":
            raise ConnectionError("the store is away")
        if self.mood == "loses" and self.objects:
            del self.objects[self.dice.choice(sorted(self.objects))]

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self._meet("put")
        if self.mood == "refuses":
            return [False] * len(objects)
        if self.mood == "lies":
            return [True] * len(objects)
        if self.mood == "short":
            return [True] * (len(objects) - 1)
        room = 6 if self.mood == "full" else 1 << 30
        kept = []
        for name, data in objects:
            refused = self.mood == "refuses some" and self.dice.random() < 0.5
            kept.append(len(self.objects) < room and not refused)
            if kept[-1]:
                self.objects[name] = data
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        self._meet("get")
        found = [self.objects.get(name) for name in names]
        if self.mood == "lies":  # another's page, a cut one, one that is too long
            wrong = [None, *self.objects.values()]
            ends = (b"", b"", b"more")
            return [(self.dice.choice(wrong) or b"")[:200] + self.dice.choice(ends) for _ in names]
        return found[1:] if self.mood == "short" else found

    def remove(self, names: Sequence[str]) -> None:
        self._meet("remove")
        if self.mood != "lies":
            super().remove(names)

    def contains(self, names: Sequence[str]) -> list[bool]:
        self._meet("contains")
        if self.mood == "lies":
            return [self.dice.random() < 0.5 for _ in names]
        return [name in self.objects for name in names][self.mood == "short" :]

    def keep(self, names: Sequence[str]) -> None:
        self._meet("keep")


class Hanging(Inline):
    """A worker whose store does not answer while it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs: Callable[[], bool] = lambda: False

    def poll(self, timeout: float = 0) -> int:
        return 0 if self.hangs() else super().poll(timeout)


class Soak:
    """One long run of two engines over a shared store, the first with a store of its own too."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        common: dict[str, bytes] = {}
        self.shelves, self.engines = [], []
        for place in range(2):
            shelves = [Unruly(Random(seed + place)), Unruly(Random(seed), common)]
            lower = below(9, "shared", "common", admission="write-back", timeout_ms=900)
            tiers = [host(10, high=0.8, low=0.6), below(14, high=0.9, low=0.7), lower]
            if place:
                tiers, shelves = [host(6, high=0.7, low=0.5), lower], shelves[1:]
            workers: list[Hanging] = []
            engine = Engine(tiers, stores=shelves, blocks=20, worker=_into(workers), poison=True)
            for shelf, worker in zip(shelves, workers[1:], strict=True):
                worker.hangs = partial(_is_hung, shelf)
            self.engines.append(engine)
            self.shelves.append(shelves)

    def step(self) -> None:
        """One operation of one of them."""
        dice = self.dice
        place = dice.randrange(2)
        engine, shelves = self.engines[place], self.shelves[place]
        engine.now += dice.randrange(4) if dice.random() < 0.9 else dice.randrange(4000)
        turn = dice.random()
        if turn < 0.12:
            dice.choice(shelves).mood = dice.choice(MOODS)
        elif turn < 0.2:
            shelf = dice.choice(shelves)
            if shelf.objects:
                shelf.flip(dice.choice(sorted(shelf.objects)), dice.randrange(300))
        elif turn < 0.5:
            self.run(engine)
        elif turn < 0.6:
            engine.tiers.prefetch(dice.choice(PROMPTS))
        elif turn < 0.65:
            engine.forget()
        elif turn < 0.75:
            engine.tiers.make_room(dice.randrange(20))
        else:
            engine.tiers.poll()

    def run(self, engine: Engine) -> None:
        """A request; what it is promised and does not get is computed."""
        prompt = self.dice.randrange(len(PROMPTS))
        try:
            grant = engine.start(PROMPTS[prompt])
        except CapacityError:
            return
        for _ in range(6):
            engine.tiers.poll()
        if engine.kv.inspect.tickets():
            engine.tiers.cancel(grant.seq)
            engine.tiers.poll()
        if not engine.kv.inspect.tickets():
            compute(engine, grant.seq, prompt)
            with suppress(BusyError):
                engine.tiers.offload(grant.seq)
        engine.tiers.poll()
        engine.kv.release(grant.seq)

    def idle(self) -> None:
        """Whatever the stores do: with nothing to do, an engine calls none of them."""
        for engine, shelves in zip(self.engines, self.shelves, strict=True):
            hung = [shelf for shelf in shelves if shelf.mood == "hangs"]
            for shelf in hung:
                shelf.mood = "fails"
            engine.tiers.drain()
            before = [len(shelf.calls) for shelf in shelves]
            for _ in range(5):
                engine.tiers.poll()
            assert [len(shelf.calls) for shelf in shelves] == before
            engine.tiers.check_integrity()

    def finish(self) -> None:
        """A store that hangs for ever ends neither; then what is left is right."""
        for engine, shelves in zip(self.engines, self.shelves, strict=True):
            for shelf in shelves:
                shelf.mood = "well"
            engine.now += 10_000
            engine.tiers.drain()
            engine.tiers.verify()
            assert engine.tiers.verify() == []
            assert [level.index.counts()[2:] for level in engine.tiers.levels] == [
                (0, 0) for _ in engine.tiers.levels
            ]
            assert engine.kv.inspect.tickets() == []
            engine.now += 10_000
            for shelf in shelves:
                shelf.mood = "hangs"
            engine.forget()
            engine.tiers.prefetch(PROMPTS[-1])
            self.run(engine)
            busy = any(worker.busy for worker in engine.tiers.workers)
            if busy:
                with pytest.raises(TierError, match="nothing has ended for"):
                    engine.tiers.drain(limit=0.01)
            with pytest.raises(TierError, match="not closed"):
                engine.tiers.close(limit=0.01)


def compute(engine: Engine, seq: int, prompt: int) -> None:
    """Compare every full block that is there, and compute the others."""
    kv, pool, tokens = engine.kv, engine.pools[0], PROMPTS[prompt]
    there = kv.inspect.num_readable_tokens(seq) // BLOCK
    found = pool.get(kv.block_table(seq)[:there])
    for at in range(there):
        assert np.array_equal(found[at], page_of(prompt, at)), (prompt, at)
    kv.extend(seq, len(tokens))
    blocks = list(range(there, len(tokens) // BLOCK))
    if blocks:
        table = kv.block_table(seq)
        pool.put(table[blocks], np.stack([page_of(prompt, at) for at in blocks]))
    kv.commit(seq, len(tokens))


def _is_hung(shelf: Unruly) -> bool:
    return shelf.mood == "hangs"


def _into(workers: list[Hanging]) -> Callable[[str], Any]:
    def made(_: str) -> Hanging:
        workers.append(Hanging())
        return workers[-1]

    return made


@pytest.mark.scenario("F13", "F14", "F17")
def test_stores_that_do_what_they_like_end_in_misses_alone() -> None:
    seeds, each = max(1, STEPS // 20_000), min(STEPS, 20_000)
    for seed in range(first_seed(), first_seed() + seeds):
        long_run(seed, each)


def long_run(seed: int, steps: int) -> None:
    """Operations of one seed, and what must have happened in them."""
    soak = Soak(seed)
    for step in range(steps):
        soak.step()
        if step % 100 == 0:
            soak.idle()
    told = [engine.tiers.stats() for engine in soak.engines]
    soak.finish()
    for what in ("stored", "loaded", "failed_stores", "failed_loads", "errors", "missing"):
        assert all(one["common"][what] > 0 for one in told), (seed, what)
    assert told[0]["below"]["corrupt"] > 0
    assert told[0]["moved"]["promoted"] > 0
