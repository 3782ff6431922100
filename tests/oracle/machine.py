"""A manager, its model and its data plane side by side; after every call they must agree."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    CopyPlan,
    EventKind,
    EvictionConfig,
    KVCacheManager,
    KVFrameError,
    Pin,
    PressureConfig,
    Request,
)
from kvframe.stats import EventLog

from ..policies.twins import TWINS
from .dice import Dice
from .kinds import Kind
from .model import RefusalError
from .oracle import Oracle
from .plane import Plane
from .policies import SPARE, known
from .pool import OUTSIDE, RANKS, Pool, tail_optimized
from .sequence import Ask, Token
from .victims import Victims
from .watched import Watched

T = TypeVar("T")
MOST_BLOCKS = 64


@dataclass(frozen=True)
class Setup:
    """How a manager is built."""

    policy: str = "lru"
    blocks: int = 16
    size: int = 4
    kinds: tuple[Kind, ...] = ()
    """One group of full attention, if not given."""
    index: str = "hash"
    hash: str = "sha256"
    caching: bool = True
    null: bool = False
    reserve: int = 0
    window: int | None = None
    """Blocks offered to a policy outside the core, if not all of them."""
    remap: bool = False
    partial: bool = False
    retains: bool = False
    """Requests ask for retention priorities."""

    @property
    def groups(self) -> list[Kind]:
        return list(self.kinds) or [Kind("full", self.size)]

    @property
    def takes_keys(self) -> bool:
        return self.hash != "xxh3-128" and self.index == "hash"

    def manager(self) -> KVCacheManager:
        groups = [kind.config(f"g{i}", self.size) for i, kind in enumerate(self.groups)]
        cache = CacheConfig(
            capacity=self.blocks,
            block_size=self.size,
            hash=self.hash,  # type: ignore[arg-type]
            index=self.index,  # type: ignore[arg-type]
            prefix_caching=self.caching,
            null_block=self.null,
            event_log=True,
            remap_duplicates=self.remap,
            partial_hits=self.partial,
        )
        options = {"t-lru": {"threshold": SPARE + 4, "next_prompt_estimate": 4}}
        eviction = EvictionConfig(
            policy=self.policy,
            on_error="raise",
            window=self.window if self.policy in OUTSIDE else None,
            options=options.get(self.policy, {}),
        )
        pressure = PressureConfig(reserve=self.reserve)
        config = Config(cache=cache, eviction=eviction, pressure=pressure, groups=groups)
        return KVCacheManager(config.resolve(known()))

    def model(self, kv: KVCacheManager, tables: Callable[[int], list[list[int]]]) -> Oracle:
        ranks = RANKS | {"t-lru": tail_optimized(SPARE, self.size)}
        rank = None if self.window and self.policy in OUTSIDE else ranks.get(self.policy)
        if self.retains and self.policy == "test-names":
            # Where another priority goes first, victims stand in for those that it named.
            rank = None
        pool = Pool(self.blocks, int(self.null), self.policy, rank, retains=self.retains)
        if self.policy in TWINS and self.policy not in RANKS:
            options = kv.inspect.options()["policy_options"]
            pool.twin = Victims(TWINS[self.policy](pool.usable, **options))
        o = Oracle(pool, self.size, self.groups, tables, self.caching, self.reserve)
        o.by_key, o.remaps, o.partial = self.index == "hash", self.remap, self.partial
        return o


@dataclass
class Machine:
    """What every rule needs."""

    setup: Setup
    dice: Dice
    coming: dict[int, list[int]] = field(default_factory=dict)
    """Ids that the manager will be told later, of each sequence."""
    texts: deque[list[Token]] = field(default_factory=lambda: deque(maxlen=6))
    """Prompts, the latest last."""
    preempted: list[tuple[Request, Ask]] = field(default_factory=list)
    lent: list[int] = field(default_factory=list)
    in_flight: int = 0
    """Steps begun."""
    refusals: int = 0
    short: int = 0
    """Of them, those for want of room."""
    pins: list[Pin] = field(default_factory=list)
    clock: int = 0
    """By which tickets lapse."""
    levels: list[tuple[int, int]] = field(default_factory=list)
    """Of pressure, as they are told to whoever listens."""
    called: set[str] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)
    """How often each thing that is rare has happened."""
    done: int = 0
    level: int = 0
    trail: list[str] = field(default_factory=list)
    logs: list[EventLog] = field(default_factory=list)
    """Of each call."""

    def __post_init__(self) -> None:
        self.manager = self.setup.manager()
        self.kv = cast(KVCacheManager, Watched(self.manager, self.called))
        self.kv.pressure.add_callback(self.hear)
        self.groups = len(self.setup.groups)
        self.size = self.setup.size
        self.o = self.setup.model(self.manager, self.tables)
        widest = max(kind.span for kind in self.setup.groups)
        self.plane = Plane(self.o, np.full((MOST_BLOCKS, widest), 3, np.uint64))

    def tables(self, seq: int) -> list[list[int]]:
        return [self.kv.block_table(seq, group).tolist() for group in range(self.groups)]

    def both(self, told: str, call: Callable[[], T], model: Callable[[T], object]) -> T | None:
        """Calls the manager and then its model, which both do it, or refuse it alike."""
        self.trail.append(told)
        error: KVFrameError | None = None
        wanted: type[KVFrameError] | None = None
        got: Any = None
        try:
            got = call()
        except KVFrameError as caught:
            error = caught
        self.logs.append(self.kv.log.take())
        events = self.logs[-1].events
        self.o.pool.hear(events)
        if self.o.pool.twin:
            kinds, blocks, keys = (events[name] for name in ("kind", "block", "key"))
            for row in np.flatnonzero(kinds == EventKind.STORE).tolist():
                told_keys = self.o.pool.twin.stored.setdefault(int(blocks[row]), deque())
                told_keys.append((int(keys[row][0]), int(keys[row][1])))
        try:
            model(got)
            assert not self.o.pool.victims, f"{self.o.pool.victims} died for nothing"
            if self.o.pool.twin:
                left = {block for block, keys in self.o.pool.twin.stored.items() if keys}
                assert not left, f"{left} became findable, and should not"
        except RefusalError as refusal:
            wanted = refusal.error
        except Exception as wrong:
            raise AssertionError(f"{told}: refused with {error!r}, or wrong: {wrong}") from wrong
        if wanted is None:
            assert error is None, f"{told}: refused with {error!r}"
            self.watch()
            return got  # type: ignore[no-any-return]
        assert isinstance(error, wanted), f"{told}: not {wanted}, but {error!r}"
        self.refusals += 1
        self.short += wanted is CapacityError
        return None

    def watch(self) -> None:
        """The pressure level moves with what each call has done, asked for or not."""
        pool = self.o.pool
        usage = (pool.usable - pool.room_to_come()) / pool.usable
        marks = [0.85, 0.95] if self.level == 0 else [0.7, 0.95 if self.level == 1 else 0.85]
        before, self.level = self.level, sum(usage >= mark for mark in marks)
        wanted = [(before, self.level)] if before != self.level else []
        self.same("levels", self.levels, wanted)
        self.levels.clear()

    def hear(self, before: int, after: int) -> None:
        self.levels.append((int(before), int(after)))

    def count(self, what: str, happened: bool) -> None:
        self.seen[what] += happened

    def same(self, told: str, got: object, wanted: object) -> None:
        assert got == wanted, f"{told}: {got}, but must be {wanted}"

    def seq(self) -> int | None:
        return self.dice.pick(list(self.o.seqs)) if self.o.seqs else None

    def take_plan(self) -> None:
        self.keep(self.kv.take_plan())

    def keep(self, plan: CopyPlan | None) -> None:
        """Books the copies that were planned."""
        copies = self.o.take_plan(None if not plan else plan.ticket)
        self.same("plan", [] if not plan else [*map(tuple, plan.copies.tolist())], copies)
        if plan:
            self.plane.take(plan.ticket, copies, self.dice.one_in(4))
            if self.dice.one_in(2):
                self.plane.run(len(self.plane.queue) - 1)

    def check(self) -> None:
        """Everything that can be seen, against the model."""
        kv, o, pool = self.kv, self.o, self.o.pool
        kv.check_integrity()
        cached = len(pool.cached())
        used = pool.total - pool.free - cached
        self.same("counts", tuple(kv.counts()), (pool.free, cached, used, pool.total))
        pool.check_order(kv.inspect.eviction_order().tolist())
        for seq, s in o.seqs.items():
            lengths = (len(s.tokens), s.slots, s.committed, s.cached)
            self.same(f"lengths of {seq:#x}", tuple(kv.lengths(seq)), lengths)
            wanted = [[-1 if b is None else b for b in table] for table in s.tables]
            self.same(f"tables of {seq:#x}", self.tables(seq), wanted)
        for block in range(pool.first, pool.total):
            state, _, owners = self.manager._core.block_state(block)
            b = pool.blocks.get(block)
            wanted_state = ("free", 0) if b is None else (b.state, len(b.owners))
            self.same(f"block {block}", (state, owners), wanted_state)
        stats = kv.stats.counters()
        wanted_stats = {"live_sequences": len(o.seqs), "policy_failures": 0, "collisions": 0}
        wanted_stats |= {"policy_fallbacks": 0} if self.setup.policy in OUTSIDE else {}
        for name, count in (wanted_stats | pool.stats).items():
            self.same(name, stats[name], count)
        if self.done % 8 == 0:
            self.plane.check_found()
        for kept in [*self.plane.leases.values(), *(kept for _, kept in self.plane.fenced)]:
            self.plane.check_kept(kept)
