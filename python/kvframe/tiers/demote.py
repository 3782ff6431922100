"""Copies pages from a tier to the one below it, so that what a tier evicts is not lost."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from kvframe.errors import BusyError, CapacityError
from kvframe.flat import UNKNOWN, Access
from kvframe.tiers.base import Levels
from kvframe.tiers.gate import EVICTED
from kvframe.tiers.moves import Pages
from kvframe.tiers.store_tier import Read, Rows, StoreTier, Written
from kvframe.tiers.tier_index import Keys, as_keys, as_tuples

MOST_BEHIND = 1024
"""Prefixes that wait for room in a tier below; more are dropped, and counted."""

MOST_AGAIN = 16
"""So many of them are tried again in a poll."""

MOST_CLEANED = 256
"""How many pages next to be evicted a poll offers to the tier below."""


class Demotion:
    """Writes prefixes down from their front on, so that what a tier has is always its beginning."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self._behind: list[OrderedDict[bytes, Keys]] = [OrderedDict() for _ in levels.below]

    def offer(self, place: int, keys: Keys, use: Access = UNKNOWN) -> None:
        """Send the tier below what it admits of a prefix that the tier at ``place`` has."""
        below = self._levels.below
        if place < len(below):
            self.write(place, self._levels.wanted(below[place], keys, use=use), use)

    def write(self, place: int, keys: Keys, use: Access = UNKNOWN) -> None:
        """Write a prefix from the tier at ``place`` to the one below; what has no room waits."""
        levels = self._levels
        level, below = levels.all[place], levels.below[place]
        keys = levels.lasting(below, keys[: level.index.find(keys)])
        present = below.index.present(keys)
        if present == len(keys):
            levels.note_backed(place, keys)
            return
        free = below.takes_puts(levels.clock()) and not (place == 0 and levels.starved)
        reserved = levels.reserve(below, keys, use) if free else None
        if reserved is None:
            self._put_off(place, keys)
            return
        stored, taken = reserved
        if len(taken) < len(keys):
            self._put_off(place, keys)
        if not stored.ticket:
            return
        try:
            source, slots = level.index.load(taken, stored.present, None)
        except CapacityError:
            levels.give_up(below, stored.ticket)
            levels.settle(below, stored.ticket, 0)
            self._put_off(place, keys)
            return
        levels.set_deadline(below, stored.ticket)
        self._send(place, taken, stored.present, (source, slots, stored.ticket))

    def catch_up(self) -> None:
        """Try again what waited; it is counted once."""
        counters = self._levels.counters
        deferred = counters["deferred"]
        for place, waiting in enumerate(self._behind):
            for name in list(waiting)[:MOST_AGAIN]:
                self.write(place, waiting.pop(name))
        counters["deferred"] = deferred

    def tidy(self) -> None:
        """Make room ahead in each tier that is fuller than its high mark, down to its low mark."""
        levels = self._levels
        for place, level in enumerate(levels.all):
            pages, (free, *_) = level.index.tier.pages, level.index.counts()
            if pages - free <= levels.marked(level, level.config.high):
                continue
            short = pages - free - levels.marked(level, level.config.low)
            if place < len(levels.below) and levels.cleaned[place]:
                gone = level.index.evict_backed(as_keys(levels.cleaned[place]), short)
                levels.evicted(level, gone)
                free, short = free + len(gone), short - len(gone)
            if not short:
                continue
            if place < len(levels.below):
                doomed = self._clean(place, level.index.first(min(short, MOST_CLEANED)))
            else:
                doomed = level.index.first(short)
            levels.evicted(level, level.index.evict_until(free + len(doomed)))

    def refuse_loss(self, rows: int) -> None:
        """Check that so many pages fit in host memory, without evicting what ``when_full`` keeps.

        With ``when_full = "refuse"``, a page that the tier below still lacks is not evicted.

        Raises:
            BusyError: Only such pages could make the room.
        """
        host, below = self._levels.host, self._levels.below
        if host.config.when_full != "refuse" or not below:
            return
        short = rows - host.index.counts()[0]
        if short <= 0:
            return
        lost = self._lost(0, host.index.first(short))
        if lost:
            raise BusyError(
                f"{len(lost)} pages would be evicted that {below[0].name} lacks: "
                "try again after poll()"
            )

    # --- a transfer -----------------------------------------------------------------------------

    def _send(self, place: int, keys: Keys, start: int, transfer: tuple[int, Pages, int]) -> None:
        source, slots, ticket = transfer
        levels = self._levels
        level, below = levels.all[place], levels.below[place]
        codec, owners = below.codec, levels.owners(keys)
        below.putting += 1

        def landed(outcome: Written | Exception) -> None:
            below.putting -= 1
            below.heard(outcome, levels.clock())
            good = 0 if isinstance(outcome, Exception) else outcome.good
            count = levels.settle(below, ticket, good)
            levels.note_backed(place, keys[: start + count])
            levels.counters["demoted"] += count
            if not isinstance(outcome, Exception):
                below.kept(outcome, levels.clock())
                self._make_way(place, keys, outcome)
            self.offer(place + 1, keys[: start + count])

        if isinstance(level, StoreTier):
            self._read_first(level, below, keys, start, (source, ticket), landed)
            return

        good = len(slots)

        def fetch() -> Rows:
            nonlocal good
            good = level.check(slots)
            return [some[:good] for some in level.get(slots)]

        def sent(outcome: Written | Exception) -> None:
            # A page that has changed in host memory meanwhile is dropped; it would be sent again
            # for ever.
            levels.settle(level, source, good)
            landed(outcome)

        below.worker.submit(lambda: below.write(codec, keys, owners, start, fetch), sent)

    def _read_first(
        self,
        level: StoreTier,
        below: StoreTier,
        keys: Keys,
        start: int,
        tickets: tuple[int, int],
        landed: Callable[[Written | Exception], None],
    ) -> None:
        """Read from a store in its own worker: no other may call it."""
        levels = self._levels
        (source, ticket), theirs, ours = tickets, level.codec, below.codec
        owners = levels.owners(keys)

        def fetched(outcome: Read | Exception) -> None:
            level.heard(outcome, levels.clock())
            if isinstance(outcome, Exception):
                below.putting -= 1
                levels.settle(level, source, 0, keep=True)
                levels.settle(below, ticket, 0)
                return
            level.judged(outcome)
            pages, good = outcome.pages, outcome.good
            levels.settle(level, source, good, keep=not outcome.wrong)
            below.worker.submit(
                lambda: below.write(ours, keys, owners, start, lambda: pages), landed
            )

        level.worker.submit(lambda: level.read(theirs, keys, owners, start), fetched)

    def _make_way(self, place: int, keys: Keys, written: Written) -> None:
        """A store again kept fewer pages than its tier has room for, so other pages must go.

        This happens once, until the store has kept all pages of a put. A store that then still
        keeps nothing gets no pages for a while, like one that fails.
        """
        below = self._levels.below[place]
        if not written.refused:
            below.tight = 0 if written.put else below.tight
            return
        below.tight += 1
        if below.tight == 2:
            gone = below.index.evict_until(below.index.counts()[0] + written.refused)
            self._levels.evicted(below, gone)
            if gone:
                self._put_off(place, keys)
                return
        may_go = below.index.counts()[1]
        if not min(written.good) and (below.tight > 2 or not may_go):
            below.refuses(self._levels.clock())

    def _put_off(self, place: int, keys: Keys) -> None:
        """A prefix waits for room below."""
        if not len(keys):
            return
        counters = self._levels.counters
        counters["deferred"] += 1
        waiting = self._behind[place]
        waiting[keys[-1].tobytes()] = keys
        while len(waiting) > MOST_BEHIND:
            waiting.popitem(last=False)
            counters["dropped"] += 1

    # --- ahead of an eviction ---------------------------------------------------------------------

    def _clean(self, place: int, doomed: list[int]) -> list[int]:
        """Back up pages that are about to be evicted and that the tier below admits; returns those
        that may be evicted now.
        """
        level = self._levels.all[place]
        if self._levels.below[place].takes_puts(self._levels.clock()):
            lost = self._lost(place, doomed)
        else:  # the store gets no calls now: these pages stay until their room is needed
            lost = level.index.unbacked(doomed)
        if level.config.when_full == "drop" and level.index.counts()[0] == 0:
            # A page on its way down cannot be evicted, and another would be evicted instead.
            front = level.index.first(1)
            if front == doomed[:1]:
                return front
        kept = set(lost)
        clean = next((at for at, page in enumerate(doomed) if page in kept), len(doomed))
        return doomed[:clean]

    def _lost(self, place: int, doomed: list[int]) -> list[int]:
        """Of pages that are about to be evicted, those that the tier below admits and lacks.

        This starts their transfer.
        """
        levels = self._levels
        index, below, cleaned = levels.all[place].index, levels.below[place], levels.cleaned[place]
        lost = []
        for page in index.unbacked(doomed):
            prefix = index.prefix(page)
            chain = as_tuples(prefix)
            if cleaned.get(chain[-1]):
                continue
            wanted = levels.lasting(below, levels.wanted(below, prefix, EVICTED))
            if len(wanted) == len(prefix):
                lost.append(page)
                # Reading a page makes it the most recently used, which must not delay its eviction.
                cleaned.update((key, False) for key in chain[::-1] if key not in cleaned)
                self.write(place, prefix)
        return lost
