"""Announces a manager's blocks: what its log says, and all of them to readers that lost some."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary, ref

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.stats.blocks import AllBlocksCleared, BlockEvent, BlockEvents
from kvframe.stats.events import Log
from kvframe.stats.inspect import Inspect
from kvframe.stats.log import EventLog
from kvframe.wire.convert import wire_event
from kvframe.wire.events import BlockStored, Event
from kvframe.wire.lower import Level, LowerTier, Place
from kvframe.wire.publisher import Publisher

AT_ONCE = 256
"""Most events in a batch."""

TOKENS_AT_ONCE = 1 << 20
"""Most tokens in a batch, but for one event: five bytes each, where a reader takes 16 MiB."""


class Manager(Protocol):
    """What is announced: a `KVCacheManager`."""

    @property
    def log(self) -> Log: ...
    @property
    def inspect(self) -> Inspect: ...


class Tiers(Protocol):
    """What lies below it: `kvframe.tiers.Tiers`."""

    @property
    def levels(self) -> Sequence[Level]: ...


_TAKERS: WeakKeyDictionary[Manager, ref[Announcer]] = WeakKeyDictionary()
"""Who takes the log of a manager, or took it last."""


class Announcer:
    """Tells a publisher's readers which blocks a manager holds, and its tiers.

    Call `flush` after each step. It takes the manager's log, sends what changed, and hands the log
    on. Where batches were dropped, or a reader has missed more than the publisher keeps, the next
    flush tells everything that is cached anew, once the queue is empty.

    If a model has several layer groups, only the first group of full attention is announced. A
    block of that group implies that the whole prefix before it is there.

    Args:
        kv: The manager, with ``cache.event_log``, whose log is taken by nothing else.
        publisher: Where batches go.
        tiers: Its tiers, if it has any: their blocks are announced too, each with its medium.
        token_ids: Whether events have token ids, salts, adapters and items. Without, they have
            hashes alone: readers match by `kvframe.wire.hashes_of`, and do not learn the prompts.

    Raises:
        UsageError: The manager keeps no log, or another announcer takes it: each would miss what
            the other has taken; or tiers go by a layer group that is not announced.
    """

    def __init__(
        self,
        kv: Manager,
        publisher: Publisher,
        *,
        tiers: Tiers | None = None,
        token_ids: bool = True,
    ) -> None:
        options = kv.inspect.options()
        if not options["event_log"]:
            raise UsageError("cache.event_log = false: events come from the log: set it to true")
        groups = options["groups"]
        kinds, sizes = ([group[name] for group in groups] for name in ("kind", "block_size"))
        self._group = kinds.index("full") if "full" in kinds else 0
        if tiers is not None and self._group:
            name = groups[0]["name"]
            raise UsageError(f"tiers: they go by the first layer group, {name}, which is not full")
        if kv in _TAKERS and _TAKERS[kv]() is not None:
            raise UsageError(f"kv = {shown(kv)}: another Announcer takes its log: drop it first")
        _TAKERS[kv] = ref(self)
        self._grouped = len(kinds) > 1
        self._kv, self._publisher, self._token_ids = kv, publisher, token_ids
        self._events = BlockEvents(sizes)
        levels = () if tiers is None else tiers.levels
        self._lower = [LowerTier(one, sizes[0], needs_tokens=token_ids) for one in levels]
        self._lock = threading.Lock()
        self._told_drops = 0

    def flush(self) -> EventLog:
        """Send what changed since the last call; returns the log, for other uses."""
        with self._lock:
            log = self._kv.log.take()
            changed = self._of_group(self._events.feed(log))
            if self._all_is_due():
                self._tell_all()
            else:
                self._publish(self._with_tiers(changed))
            return log

    def _all_is_due(self) -> bool:
        dropped = self._publisher.counts().dropped
        if not self._publisher.is_behind and dropped == self._told_drops:
            return False
        return self._publisher.backlog == 0

    def _tell_all(self) -> None:
        dropped = self._publisher.counts().dropped
        # The dropped batches may have held removals, so readers first clear everything.
        lost = [AllBlocksCleared()] if dropped != self._told_drops else []
        self._told_drops = dropped
        for tier in self._lower:
            tier.anew()
        everything = self._with_tiers(self._of_group(self._events.cached()))
        self._publish([*lost, *everything], complete=True)

    def _with_tiers(self, pool: list[BlockEvent]) -> list[BlockEvent]:
        """The pool's events, and what its tiers changed meanwhile."""
        if any(isinstance(event, AllBlocksCleared) for event in pool):
            for tier in self._lower:  # a reader forgets them with the pool
                tier.anew()
        found = [event for tier in self._lower for event in tier.changes(self._find, pool)]
        return [*pool, *found]

    def _find(self, key: bytes) -> Place | None:
        finders = (self._events.find, *(tier.find for tier in self._lower))
        return next((place for find in finders if (place := find(key))), None)

    def _of_group(self, events: Iterable[BlockEvent]) -> list[BlockEvent]:
        return [
            event
            for event in events
            if isinstance(event, AllBlocksCleared) or event.group == self._group
        ]

    def _publish(self, events: Iterable[BlockEvent], *, complete: bool = False) -> None:
        batch: list[Event] = []
        tokens = 0
        for event in events:
            made = wire_event(event, token_ids=self._token_ids, grouped=self._grouped)
            more = len(made.token_ids) if isinstance(made, BlockStored) else 0
            if batch and (len(batch) == AT_ONCE or tokens + more > TOKENS_AT_ONCE):
                self._publisher.publish(batch, complete=complete)
                batch, tokens, complete = [], 0, False
            batch.append(made)
            tokens += more
        if batch:
            self._publisher.publish(batch, complete=complete)

    def __repr__(self) -> str:
        return f"Announcer({self._publisher!r})"
