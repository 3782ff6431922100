"""A manager's counters, pressure and blocks, from its log alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.events import EventKind as K
from kvframe.results import BlockCounts, Pressure
from kvframe.retention import DEFAULT_PRIORITY
from kvframe.stats.log import Event
from kvframe.stats.rates import HitRates, MissReason, hit_rates

MAX_BLOCKS, MAX_BLOCK_SIZE = 2**32 - 1, 65_536

WINDOW = 1000
"""Admissions of the rolling window."""

_COUNTED = {
    K.REFUSE: "refused",
    K.OBTAIN: "allocated",
    K.TAKE: "taken",
    K.RETURN: "returned",
    K.FORK: "forks",
    K.STORE: "stored",
    K.EVICT: "evictions",
    K.COPY: "copies",
    K.LOADED: "loads",
    K.LEASE: "leases",
    K.REMAP: "remapped",
}
"""Counters that count events of a kind."""

_SUMMED = {
    K.COPY: ("copied_tokens", "other"),
    K.COLLIDE: ("collisions", "value"),
    K.BRING: ("loaded_tokens", "value"),
    K.LEASE: ("leased_tokens", "value"),
    K.FAIL: ("failed_copies", "other"),
    K.JOIN: ("joined_tokens", "other"),
}
"""Counters that sum a field of events of a kind."""


def _check(name: str, given: int, most: int) -> None:
    if not is_int(given) or not 1 <= given <= most:
        raise UsageError(f"{name} = {shown(given)}: must be an integer between 1 and {most}")


class Rebuild:
    """Reads a log from its start, and rebuilds what the manager reports of itself.

    Args:
        blocks: The pool's blocks at the start.
        block_size: Tokens of a block.
        null_block: Whether block 0 is reserved.

    Raises:
        UsageError: One of these is impossible.

    Attributes:
        lengths: Tokens with slots, by live sequence, and by each stand-in of a sequence that ended
            before its load.
        pressures: (tick, level) of each change of the pressure level that was seen.
        usages: (tick, share of blocks in use) after each portion fed.
    """

    def __init__(self, blocks: int, block_size: int, *, null_block: bool = False) -> None:
        _check("blocks", blocks, MAX_BLOCKS)
        _check("block_size", block_size, MAX_BLOCK_SIZE)
        self.total, self.block_size, self.null_block = blocks, block_size, null_block
        self.lengths: dict[int, int] = {}
        self.pressures: list[tuple[int, Pressure]] = []
        self.usages: list[tuple[int, float]] = []
        self._stats: Counter[str] = Counter()
        self._owners: Counter[int] = Counter()
        self._keys: dict[int, bytes] = {}
        self._priorities: dict[int, int] = {}
        self._copies: Counter[bytes] = Counter()
        self._taken: set[int] = set()
        self._waiting: list[tuple[int, int]] = []
        self._loads: set[int] = set()
        self._stand_ins: set[int] = set()
        self._recent: deque[tuple[int, int]] = deque(maxlen=WINDOW)
        self._admitted = (K.ALLOCATE, 0, 0)
        self._reasons: Counter[MissReason] = Counter()

    def feed(self, log: Iterable[Event]) -> None:
        """Takes the next portion of the log.

        Raises:
            UsageError: It is no log, nor a sequence of its events; nothing was taken.
        """
        tick = 0
        events = list(log) if isinstance(log, Iterable) else [log]
        for event in events:
            if not isinstance(event, Event):
                raise UsageError(f"log holds {shown(event)}: must be an EventLog, or its events")
        for event in events:
            self._one(event)
            tick = event.tick
        self.usages.append((tick, self.usage()))

    # --- what it says -----------------------------------------------------------------------------

    def counts(self) -> BlockCounts:
        """As `KVCacheManager.counts`."""
        used = sum(1 for owners in self._owners.values() if owners) + len(self._taken)
        referenced = used + self.null_block
        cached = sum(1 for block in self._keys if not self._owners[block])
        return BlockCounts(self.total - referenced - cached, cached, referenced, self.total)

    def usage(self) -> float:
        """As `PressureRoom.usage`."""
        counts, usable = self.counts(), self.total - self.null_block
        waits = Counter(block for _, block in self._waiting)
        coming = sum(self._owners[block] == owners for block, owners in waits.items())
        return (usable - counts.free - counts.cached - coming) / usable

    def state(self, block: int) -> tuple[str, int]:
        """A block's state and owners, as a `Snapshot` names them.

        Raises:
            UsageError: The pool has no such block.
        """
        self._check_block(block)
        if block in self._taken:
            return "taken", 1
        if self.null_block and block == 0:
            return "null", 0
        owners, findable = self._owners[block], block in self._keys
        if owners:
            return ("committed" if findable else "pending"), owners
        return ("cached" if findable else "free"), 0

    def priority(self, block: int) -> int:
        """A findable block's retention priority; raises as `state` does."""
        self._check_block(block)
        return self._priorities.get(block, DEFAULT_PRIORITY)

    def stats(self) -> dict[str, int]:
        """As `Stats.counters`, without those that depend only on the policy."""
        names = {name for name, _ in _SUMMED.values()} | set(_COUNTED.values()) | _FOLLOWING
        counts = self.counts()
        out = self.total - self.null_block - counts.free
        return {name: self._stats[name] for name in names} | {
            "live_sequences": len(self.lengths) - len(self._stand_ins),
            "waiting_blocks": len({block for _, block in self._waiting}),
            "freed": self._stats["allocated"] + self._stats["taken"] - out,
        }

    def hit_rates(self) -> HitRates:
        """As `Stats.hit_rates`."""
        recent = self._recent
        window = (
            len(recent),
            sum(found > 0 for _, found in recent),
            sum(prompt for prompt, _ in recent),
            sum(found for _, found in recent),
        )
        return hit_rates(self.stats(), window)

    def reasons(self) -> dict[MissReason, int]:
        """As `Stats.miss_reasons` has them in ``requests``."""
        return {reason: self._reasons[reason] for reason in MissReason}

    def _check_block(self, block: int) -> None:
        if not is_int(block) or not 0 <= block < self.total:
            raise UsageError(f"block = {shown(block)}: the pool has blocks 0 to {self.total - 1}")

    # --- what it reads ----------------------------------------------------------------------------

    def _one(self, e: Event) -> None:
        if e.kind in _COUNTED:
            self._stats[_COUNTED[e.kind]] += 1
        if e.kind in _SUMMED:
            name, field = _SUMMED[e.kind]
            self._stats[name] += int(getattr(e, field))
        if e.block >= 0:
            self._block(e)
        elif e.seq:
            self._sequence(e)
        else:
            self._manager(e)

    def _block(self, e: Event) -> None:
        match e.kind:
            case K.RETAIN:
                self._priorities[e.block] = e.value
            case K.OBTAIN | K.HIT | K.HOLD:
                self._owners[e.block] += 1
            case K.RELEASE:
                self._owners[e.block] -= 1
            case K.STORE:
                self._stats["duplicates"] += self._copies[e.key] > 0
                self._copies[e.key] += 1
                self._keys[e.block] = e.key
                if not e.seq:
                    # Published by itself: what was taken has an owner from now on.
                    self._taken.discard(e.block)
                    self._owners[e.block] += 1
            case K.REMAP:
                self._stats["duplicates"] += 1
            case K.EVICT | K.FORGET:
                if e.kind == K.EVICT and e.value:
                    self._stats[_CAUSES[e.value]] += 1
                self._copies[self._keys.pop(e.block)] -= 1
                self._priorities.pop(e.block, None)
            case K.TAKE:
                self._taken.add(e.block)
            case K.RETURN:
                self._taken.discard(e.block)
            case K.WAIT:
                self._waiting.append((e.value, e.block))

    def _sequence(self, e: Event) -> None:
        match e.kind:
            case K.ALLOCATE | K.RESUME:
                self._admit(e)
            case K.MISS:
                self._miss(e)
            case K.APPEND | K.EXTEND | K.TRUNCATE | K.REWIND:
                self.lengths[e.seq] = e.value
            case K.FORK:
                self.lengths[e.seq] = self.lengths[e.value]
            case K.STAND_IN:
                self.lengths[e.seq] = e.other
                self._stand_ins.add(e.seq)
            case K.PARTIAL:
                self._partial(e)
            case K.REMATCH:
                self._rematch(e)
            case K.FINISH:
                del self.lengths[e.seq]
                self._stand_ins.discard(e.seq)
            case K.LOAD:
                self._loads.add(e.value)

    def _admit(self, e: Event) -> None:
        stats, found = self._stats, e.other
        self._admitted = (e.kind, e.value, found)
        # If the prompt does not have all its slots yet, an EXTEND event says so later.
        self.lengths[e.seq] = e.value
        if e.kind is K.RESUME:
            stats["resumed"] += 1
            stats["resumed_tokens"] += e.value
            stats["resumed_hit_tokens"] += found
            return
        stats["requests"] += 1
        stats["prompt_tokens"] += e.value
        stats["hit_tokens"] += found
        stats["requests_with_hit"] += found > 0
        stats["hit_share_ppm"] += found * 1_000_000 // max(e.value, 1)

    def _partial(self, e: Event) -> None:
        stats, (kind, prompt, found) = self._stats, self._admitted
        more = found + e.value
        self._admitted = (kind, prompt, more)
        if kind is K.RESUME:
            stats["resumed_hit_tokens"] += e.value
            return
        stats["hit_tokens"] += e.value
        stats["requests_with_hit"] += found == 0
        stats["hit_share_ppm"] += more * 1_000_000 // prompt - found * 1_000_000 // prompt

    def _rematch(self, e: Event) -> None:
        stats, (prompt, resumed, counted) = self._stats, e.ids.tolist()
        if resumed:
            stats["resumed_hit_tokens"] += e.value - e.other
            return
        stats["hit_tokens"] += e.value - e.other
        stats["requests_with_hit"] += e.other == 0
        stats["hit_share_ppm"] += e.value * 1_000_000 // prompt - e.other * 1_000_000 // prompt
        size = self.block_size
        stats["hit_blocks"] += counted * (e.value // size - e.other // size)

    def _miss(self, e: Event) -> None:
        kind, prompt, found = self._admitted
        unread = e.value == MissReason.READ_SKIPPED
        if kind is K.ALLOCATE:
            self._stats["lookup_blocks"] += e.other
            self._stats["hit_blocks"] += found // self.block_size
            self._reasons[MissReason(e.value)] += 1
            if unread:
                self._stats["unread"] += 1
                self._stats["unread_tokens"] += prompt
            else:
                self._recent.append((prompt, found))
        elif unread:
            self._stats["resumed_unread_tokens"] += prompt

    def _manager(self, e: Event) -> None:
        match e.kind:
            case K.PASS:
                self._waiting = [(step, block) for step, block in self._waiting if step > e.value]
            case K.RESIZE:
                self.total = e.value
            case K.PRESSURE:
                self.pressures.append((e.tick, Pressure(e.value)))
            case K.LOADED:
                self._loads.discard(e.value)
            case K.FAIL if e.value in self._loads:
                self._loads.discard(e.value)
                self._stats["loads"] += 1


_CAUSES = {1: "evictions_for_taken", 2: "evictions_ahead"}
"""What evictions are counted besides, by the value of their event."""

_FOLLOWING = {
    *_CAUSES.values(),
    "requests",
    "prompt_tokens",
    "hit_tokens",
    "unread",
    "unread_tokens",
    "lookup_blocks",
    "hit_blocks",
    "hit_share_ppm",
    "requests_with_hit",
    "resumed",
    "resumed_tokens",
    "resumed_hit_tokens",
    "resumed_unread_tokens",
    "duplicates",
}
"""Counters that take more than one field of one event."""
