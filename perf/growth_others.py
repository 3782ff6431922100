"""Routers, slots and tiers in which n of everything lives: see `perf.growth`."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import numpy as np

from kvframe import KVCacheManager, RouterIndex, SlotCache
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Inline, SwapCost, Tiers
from perf.growth_world import SIZE, All, Call, Verb


class Routed:
    """``size`` blocks of 64 workers, in chains of 16."""

    def __init__(self, size: int) -> None:
        self.index = RouterIndex(SIZE, capacity=2 * size)
        self.keyed = RouterIndex(capacity=2 * size)
        self._fresh = count(1)
        for worker in range(64):
            self.index.add_worker(worker)
            self.keyed.add_worker(worker)
        for at in range(size // 16):
            hashes, tokens = self.chain()
            self.index.stored(at % 64, hashes, None, tokens)
            self.keyed.stored(at % 64, hashes, None)

    def chain(self) -> tuple[list[int], np.ndarray[Any, np.dtype[np.uint32]]]:
        """Hashes and tokens of 16 blocks that nobody holds."""
        start = 16 * next(self._fresh)
        tokens = np.full(16 * SIZE, 7, np.uint32)
        tokens[:2] = start & 0xFFFF, start >> 16
        return list(range(start, start + 16)), tokens


def _held(world: Routed) -> tuple[list[int], np.ndarray[Any, np.dtype[np.uint32]]]:
    hashes, tokens = world.chain()
    world.index.stored(3, hashes, None, tokens)
    world.keyed.stored(3, hashes, None)
    return hashes, tokens


ROUTER: dict[str, Verb] = {
    "stored": lambda w: (lambda c: lambda: w.index.stored(3, c[0], None, c[1]))(w.chain()),
    "removed": lambda w: (lambda c: lambda: w.index.removed(3, c[0]))(_held(w)),
    "match_tokens": lambda w: (lambda c: lambda: w.index.match_tokens(c[1]))(_held(w)),
    "match_hashes": lambda w: (lambda c: lambda: w.keyed.match_hashes(c[0]))(_held(w)),
    "workers": lambda w: w.index.workers,
    "counts": lambda w: w.index.counts,
    "add_worker": lambda w: (lambda n: lambda: w.index.add_worker(n))(1000 + next(w._fresh)),
    "keeps": lambda w: lambda: w.index.keeps(3, 0),
    "cleared": All(lambda w: lambda: w.index.cleared(5)),
    "remove_worker": All(lambda w: lambda: w.index.remove_worker(7)),
}
"""The last two look through all blocks, as their pages say."""


class Slotted:
    """``size`` slots, half of them with a sequence, the others cached."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cache = SlotCache(size + 64, 16 * SIZE)
        self._fresh = count(1)
        self.seqs = [self.admitted() for _ in range(size)]
        for seq in self.seqs[: size // 2]:
            self.cache.release(seq)

    def prompt(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Token ids that no request had: their place is anywhere among those of the slots."""
        ids = np.full(3 * SIZE, 7, np.uint32)
        ids[0] = next(self._fresh) * 0x9E37_79B1 & 0x7FFF_FFFF
        return ids

    def admitted(self) -> int:
        """A sequence that is computed."""
        seq = self.cache.allocate(self.prompt()).seq
        self.cache.commit(seq, 3 * SIZE)
        return seq


def _on_slot(act: Any) -> Verb:
    def prepare(world: Slotted) -> Call:
        seq = world.admitted()
        return lambda: act(world.cache, seq)

    return prepare


def _copied(settle: str) -> Verb:
    def prepare(world: Slotted) -> Call:
        prompt = world.prompt()
        world.cache.commit(world.cache.allocate(prompt).seq, len(prompt))
        world.cache.allocate(np.append(prompt, 8))
        plan = world.cache.take_plan()
        assert plan
        return lambda: getattr(world.cache, settle)(plan.ticket)

    return prepare


def _pinnable(world: Slotted) -> np.ndarray[Any, np.dtype[np.uint32]]:
    prompt = world.prompt()
    world.cache.commit(world.cache.allocate(prompt).seq, len(prompt))
    return prompt


def _unpin(world: Slotted) -> Call:
    pin = world.cache.pin(_pinnable(world))
    assert pin is not None
    return lambda: world.cache.unpin(pin)


def _unpin_all(world: Slotted) -> Call:
    world.cache.pin(_pinnable(world), owner="one")
    return lambda: world.cache.unpin_all("one")


SLOTS: dict[str, Verb] = {
    "lookup": lambda w: (lambda p: lambda: w.cache.lookup(p))(w.prompt()),
    "admit": lambda w: (lambda p: lambda: w.cache.allocate(p))(w.prompt()),
    "append": _on_slot(lambda c, s: c.append(s, [1, 2])),
    "commit": lambda w: (lambda s: lambda: w.cache.commit(s, 12))(w.cache.allocate(w.prompt()).seq),
    "advance": _on_slot(lambda c, s: c.advance([s], [1])),
    "truncate": _on_slot(lambda c, s: c.truncate(s, 5)),
    "release": _on_slot(lambda c, s: c.release(s)),
    "take_plan": lambda w: w.cache.take_plan,
    "stats": lambda w: w.cache.stats,
    "done": _copied("done"),
    "failed": _copied("failed"),
    "pin": lambda w: (lambda p: lambda: w.cache.pin(p))(_pinnable(w)),
    "unpin": _unpin,
    "unpin_all (owner)": _unpin_all,
    "pins": All(lambda w: w.cache.pins),
    "slots": All(lambda w: w.cache.slots),
    "eviction_order": All(lambda w: w.cache.eviction_order),
    "check_integrity": All(lambda w: w.cache.check_integrity),
    "clear_cache": All(lambda w: Slotted(w.size).cache.reset_prefix_cache),
    "set_fingerprint": All(lambda w: partial(Slotted(w.size).cache.set_weight_version, "v2")),
}


class Tiered:
    """A pool over a host tier of ``size`` pages, all of them held."""

    def __init__(self, size: int) -> None:
        self.size = size
        shape = PageShape(layers=1, parts=2, block_size=SIZE, heads=1, row_bytes=2)
        blocks = 256
        page = 2 * SIZE * 2
        self.kv = KVCacheManager.from_toml(
            None,
            cache={"capacity": blocks, "block_size": SIZE},
            model={"layers": 1, "kv_heads": 1, "head_dim": 1, "dtype": "float16"},
            tiers=[{"name": "host", "store": "host", "capacity": f"{size * page}B"}],
        )
        pool = NumpyPool(Layout.of(LAYER_FIRST, shape, blocks))
        self.tiers = Tiers(self.kv, pool, model="tiny", worker=lambda _: Inline())
        self._fresh = count(1)
        for _ in range(size // 8 + 8):
            self.served(self.prompt())

    def prompt(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Token ids of eight blocks that nobody has asked for."""
        start = next(self._fresh)
        ids = np.full(8 * SIZE + 1, 7, np.uint32)
        ids[:2] = start & 0xFFFF, start >> 16
        return ids

    def admitted(self, prompt: Any) -> int:
        """A sequence that is computed."""
        seq = self.tiers.allocate(prompt).seq
        self.tiers.drain()
        self.kv.commit(seq, len(prompt))
        return seq

    def served(self, prompt: Any) -> None:
        """A request from its admission to its end."""
        seq = self.admitted(prompt)
        self.tiers.offload(seq)
        self.tiers.drain()
        self.kv.release(seq)


def _offload(world: Tiered) -> Call:
    seq = world.admitted(world.prompt())

    def call() -> None:
        world.tiers.offload(seq)
        world.tiers.poll()
        world.kv.release(seq)

    return call


def _admit(world: Tiered) -> Call:
    prompt = world.prompt()

    def call() -> None:
        world.kv.release(world.tiers.allocate(prompt).seq)

    return call


def _swapped(world: Tiered) -> Any:
    swapped = world.tiers.swap_out(world.admitted(world.prompt()))
    world.tiers.drain()
    return swapped


def _swap_out(world: Tiered) -> Call:
    seq = world.admitted(world.prompt())

    def call() -> None:
        world.tiers.drop_swapped(world.tiers.swap_out(seq))

    return call


def _swap_in(world: Tiered) -> Call:
    swapped = _swapped(world)

    def call() -> None:
        seq = world.tiers.swap_in(swapped).seq
        world.tiers.drain()
        world.kv.release(seq)

    return call


def _drop_swapped(world: Tiered) -> Call:
    swapped = _swapped(world)
    return lambda: world.tiers.drop_swapped(swapped)


def _preempt(world: Tiered) -> Call:
    seq = world.admitted(world.prompt())
    cost = SwapCost(parameters=1e3, flops=1e12, bandwidth_out=1e9, bandwidth_in=1e9)
    return lambda: world.tiers.preempt(seq, cost)


TIERS: dict[str, Verb] = {
    "lookup": lambda w: (lambda p: lambda: w.tiers.lookup(p))(w.prompt()),
    "admit": _admit,
    "offload": _offload,
    "poll": lambda w: w.tiers.poll,
    "prefetch": lambda w: (lambda p: lambda: w.tiers.prefetch(p))(w.prompt()),
    "drain": lambda w: w.tiers.drain,
    "stats": lambda w: w.tiers.stats,
    "cancel": lambda w: (lambda p: lambda: w.tiers.cancel(p))(w.tiers.prefetch(w.prompt())),
    "make_room": lambda w: lambda: w.tiers.make_room(16),
    "tidy": lambda w: w.tiers.tidy,
    "swap_out": _swap_out,
    "swap_in": _swap_in,
    "drop_swapped": _drop_swapped,
    "preempt": _preempt,
    "check_integrity": All(lambda w: w.tiers.check_integrity),
    "verify": All(lambda w: w.tiers.verify),
    "clear_cache": All(lambda w: Tiered(w.size).tiers.reset_prefix_cache),
    "set_fingerprint": All(lambda w: partial(Tiered(w.size).tiers.set_weight_version, "v2")),
}
