"""The way up: from the tiers into the pool, in two stages where a page is below host memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kvframe.arguments import is_int, shown
from kvframe.errors import BusyError, CapacityError, HandleError, UsageError
from kvframe.flat import UNKNOWN, Access
from kvframe.tiers.base import Levels
from kvframe.tiers.moves import Pages
from kvframe.tiers.store_tier import Read, StoreTier
from kvframe.tiers.tier_index import Keys, Stored

State = Literal["queued", "looking", "promoting", "waiting", "onboarding", "done", "cancelled"]


@dataclass(eq=False)
class Loading:
    """Pages of a prefix on their way up: for a sequence, or ahead of one (`Tiers.prefetch`).

    Attributes:
        keys: The prefix, as far as it is wanted.
        state: ``queued`` (too much is on its way), ``looking`` (a shared store is asked what it
            has), ``promoting`` (from a store to host memory),
            ``waiting`` (for pages that others promote, or for room), ``onboarding`` (to the pool),
            ``done``, ``cancelled``.
        seq: The sequence that it is for; None for a prefetch.
        loaded: Pages that have come: to host memory for a prefetch, to the pool for a sequence.
    """

    keys: Keys
    use: Access
    state: State = "queued"
    seq: int | None = None
    loaded: int = 0
    start: int = 0
    pages: list[Pages] = field(default_factory=list)
    ticket: int | None = None
    into_host: int | None = None
    refused: bool = False
    source: tuple[StoreTier, int] | None = None


class Upward(Levels):
    """Loads. Each one ends, and pages that did not come are computed again."""

    _loading: list[Loading]
    _queue: deque[Loading]
    _most_prefetched: int
    _rewound: list[int]
    _landed: list[int]
    _poison: bool

    # --- ahead of a request --------------------------------------------------------------------

    def _start(self, loading: Loading) -> None:
        """Bring to host memory what is not there, then on to the pool."""
        self._loading.append(loading)
        self._look(loading, 0)

    def _look(self, loading: Loading, place: int) -> None:
        """Ask shared stores, from a place on, for what no tier is known to have; then promote."""
        keys, now = loading.keys, self._clock()
        known = max(self.host.index.present(keys), self._source(keys)[1])
        if loading.ticket is None and known < len(keys):
            for at, below in enumerate(self.below[place:], place):
                if below.shared and below.is_up(now):
                    self._ask(loading, at)
                    return
        self._promote(loading)

    def _source(self, keys: Keys) -> tuple[StoreTier | None, int]:
        """The nearest store that has most of a prefix, and how many pages of it."""
        now, best, most = self._clock(), None, 0
        for below in self.below:
            found = below.index.find(keys) if below.is_up(now) else 0
            if found > most:
                best, most = below, found
        return best, most

    def _promote(self, loading: Loading) -> None:
        below, found = self._source(loading.keys)
        present = self.host.index.present(loading.keys)
        loading.keys = loading.keys[: max(found, present)]
        loading.state = "waiting"
        if below is None or found <= present:
            self._go_on(loading)
            return
        reserved = self._reserve(self.host, self._sparing(loading.keys))
        if reserved is None:
            self.counters["deferred"] += 1
            loading.keys = loading.keys[:present]
            self._go_on(loading)
            return
        stored, loading.keys = reserved
        self._evicted(self.host, stored.evicted)
        if stored.ticket:
            self._fetch(loading, below, stored)
        else:
            self._go_on(loading)

    def _sparing(self, keys: Keys) -> Keys:
        """As much of a prefix as fits without an eviction that ``when_full = "refuse"`` forbids."""
        index = self.host.index
        present = index.present(keys)
        try:
            self._refuse_loss(len(keys) - present)
        except BusyError:
            self.counters["deferred"] += 1
            return keys[: present + index.counts()[0]]
        return keys

    def _fetch(self, loading: Loading, below: StoreTier, stored: Stored) -> None:
        """The first stage."""
        keys, slots, host, codec = loading.keys, stored.slots, self.host, below.codec
        try:
            source, _ = below.index.load(keys, stored.present, loading.use)
        except CapacityError:
            self._give_up(host, stored.ticket)
            self._settle(host, stored.ticket, self._all(0))
            self._go_on(loading)
            return
        self._used(below, keys)
        loading.state, loading.into_host = "promoting", stored.ticket
        loading.source = (below, source)
        for level, ticket in ((below, source), (host, stored.ticket)):
            self._deadline(level, ticket)

        def fetch() -> Read:
            read = below.read(codec, keys, stored.present, host.get(slots))
            host.seal(slots[: read.good])
            return read

        def fetched(outcome: Read | Exception) -> None:
            good, keep = 0, True
            below.heard(outcome, self._clock())
            if not isinstance(outcome, Exception):
                good, keep = outcome.good, not outcome.wrong
                below.judged(outcome)
            self._settle(below, source, self._all(good), keep=keep)
            count = self._settle(host, stored.ticket, self._all(good))
            self._note_backed(0, keys[: stored.present + count])
            self.counters["promoted"] += count
            loading.into_host = None
            if loading.state == "promoting":
                loading.state = "waiting"
                self._go_on(loading)

        below.worker.submit(fetch, fetched)

    def _ask(self, loading: Loading, place: int) -> None:
        """Ask a store that others write to for what this process does not know of."""
        below = self.below[place]
        keys, known = loading.keys, below.index.present(loading.keys)
        loading.state = "looking"

        def told(outcome: int | Exception) -> None:
            below.heard(outcome, self._clock())
            if not isinstance(outcome, Exception) and below.codec is codec:
                parent = keys[known - 1 : known] if known else None
                below.index.adopt(keys[known : known + outcome], parent)
            if loading.state == "looking":
                self._look(loading, place + 1)

        codec = below.codec
        below.worker.submit(lambda: below.look(codec, keys[known:]), told)

    # --- into the pool -------------------------------------------------------------------------

    def _go_on(self, loading: Loading) -> None:
        """The second stage, once nothing of the prefix is still on its way to host memory."""
        index, keys = self.host.index, loading.keys
        found = index.find(keys)
        if found < index.present(keys):
            return
        if loading.ticket is None:
            loading.loaded = found
            self._end(loading)
            return
        if found <= loading.start:
            self._bring_in(loading, 0)
            return
        try:
            ticket, slots = index.load(keys[:found], loading.start, loading.use)
        except CapacityError:
            self.counters["deferred"] += not loading.refused
            loading.refused = True
            return
        loading.refused = False
        self._used(self.host, keys[:found])
        self._onboard(loading, ticket, slots)

    def _onboard(self, loading: Loading, ticket: int, slots: Pages) -> None:
        loading.state, host = "onboarding", self.host
        pages = [some[: len(slots)] for some in loading.pages]
        if self._poison:
            for part, some in zip(self.parts, pages, strict=True):
                part.pool.poison(some)

        def onboarded(outcome: int | Exception) -> None:
            failed = isinstance(outcome, Exception)
            good = 0 if isinstance(outcome, Exception) else self._alike(pages, slots, outcome)
            self._settle(host, ticket, self._all(good), keep=failed)
            self.counters["onboarded"] += good
            self._bring_in(loading, good)

        self.moves.bring(slots, pages, lambda: host.check(slots), onboarded)

    def _bring_in(self, loading: Loading, good: int) -> None:
        """The load has ended with so many pages good."""
        loading.loaded = good
        if loading.ticket is not None:
            try:
                self._rewound += self.kv.loaded(loading.ticket, good)
            except HandleError:  # the engine has settled it, or its deadline has come
                loading.loaded = 0
            if loading.seq is not None and loading.loaded and self._lives(loading.seq):
                self._landed.append(loading.seq)
        self._end(loading)

    def _end(self, loading: Loading) -> None:
        if loading.state != "cancelled":
            loading.state = "done"
        self._loading.remove(loading)

    def _cancel(self, loading: Loading) -> None:
        """Give a load up; what the pool waits for is computed instead."""
        if loading in self._queue:
            self._queue.remove(loading)
            loading.state = "cancelled"
            return
        if loading not in self._loading or loading.state == "onboarding":
            return  # over, or about to be
        loading.state = "cancelled"
        if loading.into_host is not None and not self._awaited(loading):
            self._give_up(self.host, loading.into_host)
        self._bring_in(loading, 0)

    def _awaited(self, loading: Loading) -> bool:
        """Whether another load waits for the pages that this one is bringing to host memory."""
        at = self.host.index.find(loading.keys)
        key = loading.keys[at : at + 1]
        others = [one for one in self._loading if one.state == "waiting"]
        return any(len(key) and np.array_equal(one.keys[at : at + 1], key) for one in others)

    def _late(self, level: object, tickets: list[int]) -> None:
        """Transfers of a tier took too long: loads that wait for them go on without them."""
        for loading in [one for one in self._loading if one.state == "promoting"]:
            below, source = loading.source or (None, 0)
            into = loading.into_host
            if (level is self.host and into in tickets) or (level is below and source in tickets):
                if into is not None:
                    self._give_up(self.host, into)
                loading.state, loading.into_host = "waiting", None
                self._go_on(loading)

    # --- queued ---------------------------------------------------------------------------------

    def _prefetch(self, keys: Keys, use: Access = UNKNOWN) -> Loading:
        loading = Loading(keys, use)
        self._queue.append(loading)
        self._start_queued()
        return loading

    def _start_queued(self) -> None:
        while self._queue:
            busy = sum(len(one.keys) for one in self._loading if one.ticket is None)
            if busy and busy + len(self._queue[0].keys) > self._most_prefetched:
                return
            self._start(self._queue.popleft())

    def _unfinished(self) -> None:
        """Go on with loads that waited for others, or for room."""
        for loading in [one for one in self._loading if one.state == "waiting"]:
            self._go_on(loading)
        self._start_queued()

    def _check_prefetch(self, tokens: int) -> int:
        if not is_int(tokens):
            raise UsageError(f"prefetch_tokens = {shown(tokens)}: must be an integer")
        if tokens < self.block_size:
            raise UsageError(f"prefetch_tokens = {tokens}: must be at least {self.block_size}")
        return tokens // self.block_size
