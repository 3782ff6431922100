"""Announces a manager's blocks: what its log says, and all of them to readers that lost some."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Protocol

from kvframe.errors import UsageError
from kvframe.stats.blocks import AllBlocksCleared, BlockEvent, BlockEvents
from kvframe.stats.events import Log
from kvframe.stats.inspect import Inspect
from kvframe.stats.log import EventLog
from kvframe.wire.convert import wire_event
from kvframe.wire.events import Event
from kvframe.wire.publisher import Publisher

AT_ONCE = 256
"""Most events in a batch."""


class Manager(Protocol):
    """What is announced: a `KVCacheManager`."""

    @property
    def log(self) -> Log: ...
    @property
    def inspect(self) -> Inspect: ...


class Announcer:
    """Tells a publisher's readers which blocks a manager holds.

    Call `flush` after each step. It takes the manager's log, sends what changed, and hands the log
    on. Where batches were dropped, or a reader has missed more than the publisher keeps, the next
    flush tells everything that is cached anew, once the queue is empty.

    If a model has several layer groups, only the first group of full attention is announced. A
    block of that group implies that the whole prefix before it is there.

    Args:
        kv: The manager, with ``cache.event_log``, whose log is taken by nothing else.
        publisher: Where batches go.
        token_ids: Whether events have token ids, salts, adapters and items. Without, they have
            hashes alone: readers match by `kvframe.wire.hashes_of`, and do not learn the prompts.

    Raises:
        UsageError: The manager keeps no log.
    """

    def __init__(self, kv: Manager, publisher: Publisher, *, token_ids: bool = True) -> None:
        options = kv.inspect.options()
        if not options["event_log"]:
            raise UsageError("cache.event_log = false: events come from the log: set it to true")
        kinds = [group["kind"] for group in options["groups"]]
        self._group = kinds.index("full") if "full" in kinds else 0
        self._grouped = len(kinds) > 1
        self._kv, self._publisher, self._token_ids = kv, publisher, token_ids
        self._events = BlockEvents([group["block_size"] for group in options["groups"]])
        self._lock = threading.Lock()
        self._told_drops = 0

    def flush(self) -> EventLog:
        """Send what changed since the last call; returns the log, for other uses."""
        with self._lock:
            log = self._kv.log.take()
            changed = self._events.feed(log)
            if self._all_is_due():
                self._tell_all()
            else:
                self._publish(self._of_group(changed))
            return log

    def _all_is_due(self) -> bool:
        dropped = self._publisher.counts().dropped
        if not self._publisher.is_behind and dropped == self._told_drops:
            return False
        return self._publisher.backlog == 0

    def _tell_all(self) -> None:
        dropped = self._publisher.counts().dropped
        everything = self._of_group(self._events.cached())
        # The dropped batches may have held removals, so readers first clear everything.
        lost = [AllBlocksCleared()] if dropped != self._told_drops else []
        self._told_drops = dropped
        self._publish([*lost, *everything], complete=True)

    def _of_group(self, events: Iterable[BlockEvent]) -> Iterator[BlockEvent]:
        for event in events:
            if isinstance(event, AllBlocksCleared) or event.group == self._group:
                yield event

    def _publish(self, events: Iterable[BlockEvent], *, complete: bool = False) -> None:
        ready: list[Event] = [
            wire_event(event, token_ids=self._token_ids, grouped=self._grouped) for event in events
        ]
        for at in range(0, len(ready), AT_ONCE):
            batch = ready[at : at + AT_ONCE]
            self._publisher.publish(batch, complete=complete and at == 0)

    def __repr__(self) -> str:
        return f"Announcer({self._publisher!r})"
