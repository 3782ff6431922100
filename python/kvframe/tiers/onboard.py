"""The way up: from the tiers into the pool, in two stages where a page is below host memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from kvframe.errors import BusyError, CapacityError, HandleError
from kvframe.flat import Access
from kvframe.manager import KVCacheManager
from kvframe.results import Allocation
from kvframe.tiers.base import Level, Levels, is_running
from kvframe.tiers.demote import Demotion
from kvframe.tiers.moves import Event, Moves, Pages
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
        layers: Layer by layer (`Tiers.arriving`): the events of the copies to the pool.
    """

    keys: Keys
    use: Access
    state: State = "queued"
    seq: int | None = None
    loaded: int = 0
    layers: list[Sequence[Event]] = field(default_factory=list)
    start: int = 0
    pages: list[Pages] = field(default_factory=list)
    ticket: int | None = None
    into_host: int | None = None
    source: tuple[StoreTier, int] | None = None


class Arriving(NamedTuple):
    """A load whose copies to the pool are queued.

    Attributes:
        upto: The tokens of the sequence that are there once all events have come.
        layers: Of each layer, the events that bring it: let a stream wait for them before it reads.
    """

    upto: int
    layers: list[list[Event]]


class Onboard:
    """Loads. Each one ends, and pages that did not come are computed again.

    Args:
        kv: The manager.
        levels: Its tiers.
        demotion: Says what may be evicted from host memory to make room.
        moves: Copies between the pool and host memory.
        most_prefetched: Pages that prefetches bring at once.
        poison: Overwrite pages before they are filled.
        layerwise: Bring pages to the pool layer by layer.

    Attributes:
        loading: Loads under way.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        levels: Levels,
        demotion: Demotion,
        moves: Moves,
        *,
        most_prefetched: int,
        poison: bool,
        layerwise: bool,
    ) -> None:
        self._kv, self._levels, self._demotion, self._moves = kv, levels, demotion, moves
        self._most_prefetched, self._poison = most_prefetched, poison
        self._layerwise = layerwise
        self.loading: list[Loading] = []
        self._queue: deque[Loading] = deque()
        self._joined: dict[int, int] = {}

    # --- begin, cancel, go on -------------------------------------------------------------------

    def load(self, given: Allocation, keys: Keys, use: Access) -> None:
        """Bring what a sequence was allocated for: `Allocation.load` is its ticket."""
        size = self._kv.block_size
        start = (given.cached_tokens + given.joined_tokens) // size
        rows = start + given.external_tokens // size
        loading = Loading(keys[:rows], use, seq=given.seq, start=start, ticket=given.load)
        loading.pages = self._moves.pages(self._kv, given.seq, start, rows)
        self._start(loading)

    def join(self, seq: int, end: int) -> None:
        """A sequence that joined another's load lands once its first ``end`` tokens are there."""
        self._joined[seq] = end

    def prefetch(self, keys: Keys, use: Access) -> Loading:
        """Bring what stores have of a prefix to host memory; queued if too much is on its way."""
        loading = Loading(keys, use)
        self._queue.append(loading)
        self._start_queued()
        return loading

    def cancel(self, which: Loading | int) -> None:
        """Give up a prefetch, or the loads of a sequence; what the pool waits for is computed."""
        for loading in [*self.loading, *self._queue]:
            if loading is which or loading.seq == which:
                self._cancel(loading)

    def leader(self, keys: Keys) -> int | None:
        """The sequence whose load brings the last of some pages."""
        at = len(keys) - 1
        for loading in self.loading:
            if len(loading.keys) > at and (loading.keys[at] == keys[at]).all():
                return loading.seq
        return None

    def arriving(self, seq: int) -> Arriving | None:
        """What is on its way to a sequence, layer by layer; see `Tiers.arriving`."""
        for loading in self.loading:
            if loading.seq == seq and loading.layers:
                upto = (loading.start + loading.loaded) * self._kv.block_size
                return Arriving(upto, [list(each) for each in zip(*loading.layers, strict=True)])
        return None

    def give_up_late(self, level: Level, tickets: list[int]) -> None:
        """Transfers of a tier took too long: loads that wait for them go on without them."""
        host = self._levels.host
        for loading in [one for one in self.loading if one.state == "promoting"]:
            below, source = loading.source or (None, 0)
            into = loading.into_host
            if (level is host and into in tickets) or (level is below and source in tickets):
                if into is not None:
                    self._levels.give_up(host, into)
                loading.state, loading.into_host = "waiting", None
                self._go_on(loading)

    def go_on(self) -> None:
        """Go on with loads that waited for others, or for room."""
        for loading in [one for one in self.loading if one.state == "waiting"]:
            self._go_on(loading)
        self._start_queued()

    def land_joined(self) -> None:
        """Sequences that joined another's load have landed with it."""
        arrived = self._levels.arrived
        for seq, end in list(self._joined.items()):
            there = not is_running(self._kv, seq) or seq in arrived.rewound
            if not there and self._kv.inspect.num_readable_tokens(seq) >= end:
                arrived.landed.append(seq)
                there = True
            if there:
                del self._joined[seq]

    def _start_queued(self) -> None:
        while self._queue:
            busy = sum(len(one.keys) for one in self.loading if one.ticket is None)
            if busy and busy + len(self._queue[0].keys) > self._most_prefetched:
                return
            self._start(self._queue.popleft())

    def _start(self, loading: Loading) -> None:
        """Bring to host memory what is not there, then on to the pool."""
        self.loading.append(loading)
        self._look(loading, 0)

    # --- from a store to host memory ------------------------------------------------------------

    def _look(self, loading: Loading, place: int) -> None:
        """Ask shared stores, from a place on, for what no tier is known to have; then promote."""
        levels, keys = self._levels, loading.keys
        now = levels.clock()
        known = max(levels.host.index.present(keys), self._source(keys)[1])
        if loading.ticket is None and known < len(keys):
            for at, below in enumerate(levels.below[place:], place):
                if below.shared and below.is_up(now):
                    self._ask(loading, at)
                    return
        self._promote(loading)

    def _ask(self, loading: Loading, place: int) -> None:
        """Ask a store that others write to for what this process does not know of."""
        below = self._levels.below[place]
        keys, known, codec = loading.keys, below.index.present(loading.keys), below.codec
        loading.state = "looking"

        def told(outcome: int | Exception) -> None:
            below.heard(outcome, self._levels.clock())
            if not isinstance(outcome, Exception) and below.codec is codec:
                parent = keys[known - 1 : known] if known else None
                tenant = self._levels.tenant_of(keys)
                below.index.adopt(keys[known : known + outcome], parent, tenant)
            if loading.state == "looking":
                self._look(loading, place + 1)

        below.worker.submit(lambda: below.look(codec, keys[known:]), told)

    def _source(self, keys: Keys) -> tuple[StoreTier | None, int]:
        """The nearest store that has most of a prefix, and how many pages of it."""
        now, best, most = self._levels.clock(), None, 0
        for below in self._levels.below:
            found = below.index.find(keys) if below.is_up(now) else 0
            if found > most:
                best, most = below, found
        return best, most

    def _promote(self, loading: Loading) -> None:
        levels = self._levels
        below, found = self._source(loading.keys)
        present = levels.host.index.present(loading.keys)
        loading.keys = loading.keys[: max(found, present)]
        loading.state = "waiting"
        if below is None or found <= present:
            self._go_on(loading)
            return
        wanted = self._sparing(loading.keys)
        # What went down to spare it may have cost the store some pages.
        wanted = wanted[: max(below.index.find(wanted), present)]
        reserved = levels.reserve(levels.host, wanted)
        if reserved is None:
            levels.counters["deferred"] += 1
            loading.keys = loading.keys[:present]
            self._go_on(loading)
            return
        stored, loading.keys = reserved
        if stored.ticket:
            self._fetch(loading, below, stored)
        else:
            self._go_on(loading)

    def _sparing(self, keys: Keys) -> Keys:
        """As much of a prefix as fits without an eviction that ``when_full = "refuse"`` forbids."""
        index = self._levels.host.index
        present = index.present(keys)
        try:
            self._demotion.refuse_loss(len(keys) - present)
        except BusyError:
            self._levels.counters["deferred"] += 1
            return keys[: present + index.counts()[0]]
        return keys

    def _fetch(self, loading: Loading, below: StoreTier, stored: Stored) -> None:
        levels, host = self._levels, self._levels.host
        keys, slots, codec = loading.keys, stored.slots, below.codec
        owners = levels.owners(keys)
        try:
            source, _ = below.index.load(keys, stored.present, loading.use)
        except CapacityError:
            levels.give_up(host, stored.ticket)
            levels.settle(host, stored.ticket, 0)
            self._go_on(loading)
            return
        levels.used(below, keys)
        loading.state, loading.into_host = "promoting", stored.ticket
        loading.source = (below, source)
        levels.set_deadline(below, source)
        levels.set_deadline(host, stored.ticket)

        def fetch() -> Read:
            started = time.perf_counter()
            read = below.read(codec, keys, owners, stored.present, host.get(slots))
            host.seal(slots[: read.good])
            below.rate.add(read.good * self._moves.page_bytes, time.perf_counter() - started)
            return read

        def fetched(outcome: Read | Exception) -> None:
            good, keep = 0, True
            below.heard(outcome, levels.clock())
            if not isinstance(outcome, Exception):
                good, keep = outcome.good, not outcome.wrong
                below.judged(outcome)
            levels.settle(below, source, good, keep=keep)
            count = levels.settle(host, stored.ticket, good)
            levels.note_backed(0, keys[: stored.present + count])
            levels.counters["promoted"] += count
            loading.into_host = None
            if loading.state == "promoting":
                loading.state = "waiting"
                self._go_on(loading)

        below.worker.submit(fetch, fetched)

    # --- from host memory into the pool -----------------------------------------------------------

    def _go_on(self, loading: Loading) -> None:
        """On to the pool, once nothing of the prefix is still on its way to host memory."""
        levels, index, keys = self._levels, self._levels.host.index, loading.keys
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
            levels.counters["deferred"] += loading not in levels.starved
            levels.starved.add(loading)
            return
        levels.starved.discard(loading)
        levels.used(levels.host, keys[:found])
        self._onboard(loading, ticket, slots)

    def _onboard(self, loading: Loading, ticket: int, slots: Pages) -> None:
        levels, host, moves = self._levels, self._levels.host, self._moves
        loading.state = "onboarding"
        pages = [some[: len(slots)] for some in loading.pages]
        if self._poison:
            for part, some in zip(moves.parts, pages, strict=True):
                part.pool.poison(some)

        def onboarded(outcome: int | Exception) -> None:
            failed = isinstance(outcome, Exception)
            good = 0 if isinstance(outcome, Exception) else moves.alike(pages, slots, outcome)
            levels.settle(host, ticket, good, keep=failed)
            levels.counters["onboarded"] += good
            self._bring_in(loading, good)

        def queued(good: int, layers: list[Sequence[Event]]) -> None:
            loading.loaded, loading.layers = good, layers

        nbytes = len(slots) * moves.page_bytes

        def check() -> int:
            started = time.perf_counter()
            good = host.check(slots)
            moves.check_rate.add(nbytes, time.perf_counter() - started)
            return good

        took = partial(moves.in_rate.add, nbytes)
        moves.bring(slots, pages, check, onboarded, took, queued if self._layerwise else None)

    def _bring_in(self, loading: Loading, good: int) -> None:
        """The load has ended with so many pages good."""
        arrived = self._levels.arrived
        loading.loaded = good
        if loading.ticket is not None:
            try:
                arrived.rewound.extend(self._kv.loaded(loading.ticket, good))
            except HandleError:  # the engine has settled it, or its deadline has come
                loading.loaded = 0
            if loading.loaded:
                arrived.landed.extend(self._landed(loading))
        self._end(loading)

    def _landed(self, loading: Loading) -> list[int]:
        """The sequence whose load it was; if it has ended, the forks that go on without it."""
        if loading.seq is None or is_running(self._kv, loading.seq):
            return [] if loading.seq is None else [loading.seq]
        owners = self._kv.blocks.owners(int(loading.pages[0][0])).sequences
        # `land_joined` tells of those that joined it.
        return [seq for seq in dict.fromkeys(owners) if seq not in self._joined]

    def _end(self, loading: Loading) -> None:
        if loading.state != "cancelled":
            loading.state = "done"
        self._levels.starved.discard(loading)
        self.loading.remove(loading)

    def _cancel(self, loading: Loading) -> None:
        if loading in self._queue:
            self._queue.remove(loading)
            loading.state = "cancelled"
            return
        if loading not in self.loading or loading.state == "onboarding":
            return  # over, or about to be
        loading.state = "cancelled"
        if loading.into_host is not None and not self._awaited(loading):
            self._levels.give_up(self._levels.host, loading.into_host)
        self._bring_in(loading, 0)

    def _awaited(self, loading: Loading) -> bool:
        """Whether another load waits for the pages that this one is bringing to host memory."""
        at = self._levels.host.index.find(loading.keys)
        key = loading.keys[at : at + 1]
        others = [one for one in self.loading if one.state == "waiting"]
        return any(len(key) and np.array_equal(one.keys[at : at + 1], key) for one in others)
