"""A small engine of which each part may fail, the operations of a history, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

from kvframe import (
    AdmissionConfig,
    BusyError,
    CacheConfig,
    CapacityError,
    Config,
    EvictionConfig,
    HeldError,
    KVCacheManager,
)
from kvframe.config import Resolved, TierAdmissionConfig
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, PageShape
from kvframe.tiers import Swapped, Tiers
from kvframe.tiers.tier_index import as_keys

from ..isolation.world import MODEL, World
from ..tiers.helpers import WAITING, below, host
from .seams import REGISTRY, Copies, Faults, Jobs, Store

BLOCKS, PAGES = 7, 5
SHAPE = PageShape(layers=1, parts=2, block_size=4, heads=1, row_bytes=8)
TEXTS = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [1, 2, 3, 4, 20, 21, 22, 23, 24], [30, 31, 32, 33, 34]]


@cache
def resolved() -> Resolved:
    """Every policy in Python, so that each decision is a point."""
    eviction, gate = EvictionConfig(policy="failing"), AdmissionConfig(policy="failing")
    inner: dict[str, Any] = {
        "eviction": eviction,
        "admission": TierAdmissionConfig(policy="failing"),
    }
    config = Config(
        cache=CacheConfig(capacity=BLOCKS, block_size=4, weight_version="w1", partial_hits=True),
        model=MODEL,
        eviction=eviction,
        admission=gate,
        tiers=[host(PAGES, **inner), below(8, "shared", timeout_ms=50, **inner)],
    )
    return config.resolve(REGISTRY)


class Rig(World):
    """An engine that serves `TEXTS`; whatever fails, it goes on.

    Attributes:
        alive: Those whose memory has not been given back.
    """

    alive: ClassVar[WeakSet[Rig]] = WeakSet()

    def __init__(self, faults: Faults) -> None:
        self.alive.add(self)
        self.block, self.version, self.read, self.now, self.groups = 4, "w1", 0, 0, 1
        self.faults, self.running, self.swapped = faults, {}, list[tuple[Swapped, int]]()
        self.public: list[int] = []
        self.texts: dict[int, int] = {}
        self.may_jump = False
        self.kv = KVCacheManager(resolved())
        self.store = Store()
        WAITING[:] = [self.store]
        self.pool = Copies(Layout.of(LAYER_FIRST, SHAPE, BLOCKS))
        self.pool.poison(range(BLOCKS))
        self.below = self.tiers = Tiers(
            self.kv,
            self.pool,
            host=[Copies(Layout.of(BLOCK_FIRST, SHAPE, PAGES))],
            worker=lambda _: Jobs(),
            clock=self.clock,
            model="tiny",
            poison=True,
        )

    def clock(self) -> int:
        """Milliseconds; a fault lets it jump, once an operation."""
        kind = self.faults.here("clock") if self.may_jump else None
        self.may_jump = False
        self.now += 1 if kind is None else (60, 100_000, 10**12)[kind]
        return self.now

    def pressed(self, call: Callable[[], object]) -> bool:
        """Make a call that needs blocks; a fault takes all of them first. Whether it was served."""
        hogged: list[int] = []
        if self.faults.here("allocation") is not None:
            count = self.kv.counts().free
            hogged = self.kv.blocks.take(count).tolist() if count else []
        try:
            call()
        except (CapacityError, HeldError, BusyError):
            return False
        finally:
            if hogged:
                self.kv.blocks.free(hogged)
        return True

    # --- operations ---------------------------------------------------------------------------

    def begin(self, which: int) -> None:
        def admit() -> None:
            grant = self.start("salt a", TEXTS[which])
            self.texts[grant.seq] = which

        if len(self.running) < 2:
            self.pressed(admit)

    def idle(self) -> None:
        self.below.poll()

    def work(self) -> None:
        """Compute the oldest sequence that waits for nothing, and back it up."""
        self.below.drain()
        for seq in [*self.running]:
            self.copy()
            self.check(seq)
            if self.kv.lengths(seq).committed < len(self.running[seq][1]):
                if self.pressed(lambda: self.compute(seq)):  # noqa: B023 - called at once
                    self.pressed(lambda: self.below.offload(seq))  # noqa: B023
                break
        self.below.drain()  # to host memory, and from there to the store

    def finish(self) -> None:
        for seq in [*self.running][:1]:
            self.check(seq)
            self.end(seq)

    def branch(self) -> None:
        """Fork, and grow the fork: the shared block is copied, or its copy fails."""
        for seq in [*self.running][:1]:
            told = self.kv.lengths(seq)
            if not told.committed == told.slots == told.known or len(self.running) > 2:
                return
            fork = self.kv.fork(seq)
            self.running[fork] = self.running[seq]
            if self.pressed(lambda: self.kv.append(fork, [7])):  # noqa: B023 - called at once
                space, tokens, version = self.running[fork]
                self.running[fork] = space, [*tokens, 7], version
                self.plan()

    def plan(self) -> None:
        """Carry out the planned copies; a fault lets them fail."""
        if self.faults.here("plan") is None:
            self.copy()
            return
        plan = self.kv.take_plan()
        if plan:
            for cut in self.kv.failed(plan.ticket):
                self.cut(cut)

    def cut(self, seq: int) -> None:
        """A sequence is shorter by now: its tokens are known, and are computed again."""
        if seq in self.running:
            space, tokens, version = self.running[seq]
            self.running[seq] = space, tokens[: self.kv.lengths(seq).known], version

    def swap(self) -> None:
        """Out, if something runs; then back."""
        if self.swapped:
            swapped, which = self.swapped[0]
            if swapped.state == "leaving":
                self.below.poll()

            def back() -> None:
                seq = self.below.swap_in(swapped).seq
                self.know(seq, "salt a", TEXTS[which])
                del self.swapped[0]

            self.pressed(back)
            return
        for seq in [*self.running][:1]:
            if seq in self.texts and not self.kv.inspect.tickets():

                def away() -> None:
                    swapped = self.below.swap_out(seq)  # noqa: B023
                    self.swapped.append((swapped, self.texts[seq]))  # noqa: B023
                    del self.running[seq]  # noqa: B023

                self.pressed(away)

    def forget(self) -> None:
        """The pool and host memory forget: what comes next comes from the store."""
        self.below.drain()
        self.kv.reset_prefix_cache()
        index = self.below.host.index
        for key, _ in index.stored():
            index.forget(as_keys([key]))

    def ahead(self) -> None:
        self.below.prefetch(TEXTS[0], cache_salt="a")

    def room(self) -> None:
        """Back up what is about to be evicted, at once."""
        self.pressed(lambda: self.below.make_room(5))

    # --- what holds after it --------------------------------------------------------------------

    def settle_all(self) -> None:
        """Nothing has leaked: all ends, and everything is free or cached."""
        self.faults.at, self.may_jump = None, False
        self.below.drain()
        self.copy()
        self.below.check_integrity()
        for seq in [*self.running]:
            self.check(seq)
            self.end(seq)
        self.below.drain()
        for swapped, _ in self.swapped:
            self.below.drop_swapped(swapped)
        self.below.check_integrity()
        assert self.kv.counts().referenced == 0
        assert self.kv.inspect.tickets() == []
        assert all(level.index.counts()[2:] == (0, 0) for level in self.below.levels)

    def goes_on(self) -> None:
        """It serves as before: right bytes, and what it keeps is found again in each memory."""
        self.now += 10_000
        for text in TEXTS:
            self.serve("salt a", text)
            self.settle()
        self.serve("salt a", TEXTS[2])
        assert self.kv.lookup(TEXTS[2], cache_salt="a").tokens == 4
        self.kv.reset_prefix_cache()
        assert self.serve("salt a", TEXTS[2]).external_tokens == 4
        self.now += 10_000
        self.below.poll()
        self.below.verify()
        assert self.below.verify() == []
        assert len({self.pool.get([at]).tobytes() for at in range(self.pool.layout.blocks)}) > 1
        self.below.check_integrity()


OPERATIONS: dict[str, Callable[[Rig], None]] = {
    "begin 0": lambda rig: rig.begin(0),
    "begin 1": lambda rig: rig.begin(1),
    "begin 2": lambda rig: rig.begin(2),
    "work": Rig.work,
    "finish": Rig.finish,
    "branch": Rig.branch,
    "swap": Rig.swap,
    "forget": Rig.forget,
    "ahead": Rig.ahead,
    "room": Rig.room,
    "idle": Rig.idle,
}


BEFORE: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "a prompt in the store": ("begin 0", "work", "finish", "forget"),
    "a full pool": tuple(one for at in range(3) for one in (f"begin {at}", "work", "finish")),
    "one running": ("begin 0", "work"),
}
"""What happened before, without a fault."""


def run(
    history: Sequence[str], at: int | None = None, kind: int = 0, before: str = "nothing"
) -> Faults:
    """Run a history with one fault, or none; then all that must hold.

    Returns:
        The faults, with the points of the history alone.
    """
    faults = Faults()
    rig = Rig(faults)
    for name in BEFORE[before]:
        OPERATIONS[name](rig)
    faults.passed.clear()
    faults.at, faults.kind = at, kind
    for name in history:
        rig.may_jump = True
        OPERATIONS[name](rig)
        rig.below.check_integrity()
    points = faults.passed.copy()
    rig.settle_all()
    rig.goes_on()
    faults.passed = points
    return faults
