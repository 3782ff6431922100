"""The way down: from the pool to host memory, from a tier to the one below."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kvframe.arguments import is_int, shown
from kvframe.errors import BusyError, CapacityError, UsageError
from kvframe.flat import UNKNOWN, Access
from kvframe.tiers.base import Level, Levels
from kvframe.tiers.gate import EVICTED
from kvframe.tiers.moves import Pages
from kvframe.tiers.onboard import Loading
from kvframe.tiers.store_tier import Read, Rows, StoreTier, Written
from kvframe.tiers.tier_index import Keys, as_keys, as_tuples

MOST_BEHIND = 1024
"""Prefixes that wait for room in a tier below; more are dropped, and counted."""

MOST_AGAIN = 16
"""So many of them are tried again in a poll."""

MOST_CLEANED = 256
"""How many pages next to be evicted a poll offers to the tier below."""


class Held(NamedTuple):
    """A prefix in the pool that may be wanted below when its last block is evicted."""

    keys: Keys
    table: Pages
    generation: int


class Downward(Levels):
    """Backups, from the front of a prefix on, so that what a tier has is always its beginning."""

    _loading: list[Loading]
    _behind: list[OrderedDict[bytes, Keys]]
    _held: dict[int, Held]
    _note_origin: Callable[[Keys, bytes, bytes, int], None]
    """Of `Forgetting`."""

    def offload(self, seq: int) -> int:
        """Back up what a sequence has computed, as far as the host tier's admission lets it in.

        Call it after commits, and before the sequence ends. Its blocks are held until they are
        copied, whatever becomes of it. What does not fit now is taken up by the next call.

        Returns:
            Blocks that are on their way.

        Raises:
            BusyError: With ``when_full = "refuse"``: the tier below lacks what would have to go.
        """
        self._check_open()
        rows, pages = self._rows(seq)
        salt, adapter, session = self.kv._core.origin(seq)
        keys = self.kv._core.tier_keys(seq, rows * self.block_size)
        keys = self._names.of(keys, salt, adapter)
        self._note_origin(keys, salt, adapter, session)
        known = self.kv.lengths(seq).known
        use = msgspec.structs.replace(self._requests.get(seq, UNKNOWN), tokens=known)
        wanted = self._wanted(self.host, keys, use=use)
        if len(wanted) < len(keys) and self._must_remember():
            self._remember(keys, pages[0])  # it may be wanted when it is about to be evicted
        keys, present = self._lasting(self.host, wanted), self.host.index.present(wanted)
        if present == len(keys):
            return 0
        self._refuse_loss(len(keys) - present)
        lease = self.kv.pins.lease(seq, len(keys) * self.block_size)
        moving = self._back_up(keys, pages, lambda: self.kv.done(lease), use)
        if not moving:
            self.kv.done(lease)
        return moving

    def make_room(self, free: int) -> int:
        """Evict from the pool until ``free`` blocks are free, as far as that loses nothing.

        Blocks that are about to be evicted and that the host tier then lets in (`write-back`) are
        backed up first, whether or not `offload` was called for them: at once, since to hold them
        for a while would make them recent. What the host tier has no room for stays in the pool.
        With ``cache.index = "radix"``, whose blocks have no keys, only blocks are known here of
        which an `offload` has been told. Call it ahead of need.

        Returns:
            Blocks that were backed up.
        """
        self._check_open()
        if not is_int(free):
            raise UsageError(f"free = {shown(free)}: must be an integer")
        counts = self.kv.counts()
        short = min(max(free - counts.free, 0), counts.cached)
        doomed = self.kv.inspect.eviction_order()[:short].tolist() if short else []
        clean = moved = 0
        seen: set[int] = set()  # those before a block that was backed up have gone with it
        for block in doomed:
            held = None if block in seen else self._prefix_in_pool(block)
            if held is not None:
                wanted = self._wanted(self.host, held.keys, EVICTED)
                try:
                    moved += self._back_up_now(held._replace(keys=wanted))
                except BusyError:  # it would evict pages that the tier below lacks
                    break
                if self.host.index.present(wanted) < len(wanted):
                    break  # no room for it now
                seen.update(held.table.tolist())
            clean += 1
        self.kv.evict_until(counts.free + clean)
        return moved

    def tidy(self) -> None:
        """Make room ahead in each tier that is fuller than its high mark, down to its low mark."""
        for place, level in enumerate(self.levels):
            pages, (free, *_) = level.index.tier.pages, level.index.counts()
            if pages - free <= self._marked(level, level.config.high):
                continue
            short = pages - free - self._marked(level, level.config.low)
            if place < len(self.below) and self._cleaned[place]:
                gone = level.index.evict_backed(as_keys(self._cleaned[place]), short)
                self._evicted(level, gone)
                free, short = free + len(gone), short - len(gone)
            if not short:
                continue
            doomed = [page for _, page in level.index.order()[:short]]
            if place < len(self.below):
                doomed = self._clean(level, place, doomed[:MOST_CLEANED])
            self._evicted(level, level.index.collect(free + len(doomed)))

    # --- pool to host -------------------------------------------------------------------------

    def _prefix_in_pool(self, block: int) -> Held | None:
        """What a cached block is the end of; None where that is not known."""
        if len(self.kv.inspect.resolved.config.groups) > 1:
            return None
        if self._must_remember():
            held = self._held.get(block)
            same = held and held.generation == int(self.kv._core.holds([block])[1][0])
            return held if same else None
        blocks, keys = self.kv._core.tier_prefix(block)
        return Held(keys, blocks, 0) if len(blocks) else None

    def _must_remember(self) -> bool:
        """Whether the pool's blocks have no keys by which to name them when they are evicted."""
        config = self.kv.inspect.resolved.config
        return config.cache.index == "radix" and len(config.groups) == 1

    def _remember(self, keys: Keys, table: Pages) -> None:
        blocks = table[: len(keys)]
        generations = self.kv._core.holds(blocks)[1].tolist()
        for at, (block, generation) in enumerate(zip(blocks.tolist(), generations, strict=True)):
            self._held[block] = Held(keys[: at + 1], blocks[: at + 1], generation)

    def _back_up_now(self, held: Held) -> int:
        self._refuse_loss(len(held.keys) - self.host.index.present(held.keys))
        reserved = self._reserve(self.host, held.keys)
        if reserved is None or not reserved[0].ticket:
            return 0
        stored, keys = reserved
        self._evicted(self.host, stored.evicted)
        pages = [held.table[stored.present : len(keys)] for _ in self.parts]
        self.moves.out_now(pages, stored.slots)
        good = self._alike(pages, stored.slots, self.host.seal(stored.slots))
        good = self._settle(self.host, stored.ticket, self._all(good))
        self.counters["offloaded"] += good
        self._write_down(0, keys[: stored.present + good])
        return good

    def _back_up(
        self, keys: Keys, pages: list[Pages], release: Callable[[], object], use: Access
    ) -> int:
        reserved = None if self._yields() else self._reserve(self.host, keys, use)
        if reserved is None:
            self.counters["deferred"] += 1
            return 0
        stored, keys = reserved
        self._evicted(self.host, stored.evicted)
        if not stored.ticket:
            return 0
        self._deadline(self.host, stored.ticket)
        slots, host = stored.slots, self.host
        some = [one[stored.present : len(keys)] for one in pages]

        def copied(outcome: int | Exception) -> None:
            good = 0 if isinstance(outcome, Exception) else self._alike(some, slots, outcome)
            good = self._settle(host, stored.ticket, self._all(good))
            release()
            self.counters["offloaded"] += good
            self._write_down(0, keys[: stored.present + good], use)

        self.moves.out(some, slots, lambda: host.seal(slots), copied)
        return len(slots)

    def _yields(self) -> bool:
        """Whether a load waits for what is on its way in host memory: backups would starve it."""
        return any(loading.refused for loading in self._loading)

    # --- tier to tier --------------------------------------------------------------------------

    def _write_down(self, place: int, keys: Keys, use: Access = UNKNOWN) -> None:
        """Let the tier below have what it takes of a prefix that the tier at ``place`` has."""
        if place < len(self.below):
            self._write(place, self._wanted(self.below[place], keys, use=use), use)

    def _write(self, place: int, keys: Keys, use: Access = UNKNOWN) -> None:
        level, below = self.levels[place], self.below[place]
        keys = self._lasting(below, keys[: level.index.find(keys)])
        present = below.index.present(keys)
        if present == len(keys):
            self._note_backed(place, keys)
            return
        free = below.takes_puts(self._clock()) and not (place == 0 and self._yields())
        reserved = self._reserve(below, keys, use) if free else None
        if reserved is None:
            self._put_off(place, keys)
            return
        stored, taken = reserved
        if len(taken) < len(keys):
            self._put_off(place, keys)
        self._evicted(below, stored.evicted)
        if not stored.ticket:
            return
        try:
            source, slots = level.index.load(taken, stored.present, None)
        except CapacityError:
            self._give_up(below, stored.ticket)
            self._settle(below, stored.ticket, self._all(0))
            self._put_off(place, keys)
            return
        self._deadline(below, stored.ticket)
        self._send(level, below, taken, stored.present, (source, slots, stored.ticket))

    def _send(
        self,
        level: Level,
        below: StoreTier,
        keys: Keys,
        start: int,
        transfer: tuple[int, Pages, int],
    ) -> None:
        source, slots, ticket = transfer
        place, codec = self.levels.index(level), below.codec
        below.putting += 1

        def landed(outcome: Written | Exception) -> None:
            below.putting -= 1
            below.heard(outcome, self._clock())
            good = self._all(0) if isinstance(outcome, Exception) else outcome.good
            count = self._settle(below, ticket, good)
            self._note_backed(place, keys[: start + count])
            self.counters["demoted"] += count
            if not isinstance(outcome, Exception):
                below.kept(outcome, self._clock())
                self._make_way(place, keys, outcome)
            self._write_down(place + 1, keys[: start + count])

        if isinstance(level, StoreTier):
            self._read_first(level, below, keys, start, (source, ticket), landed)
            return

        good = len(slots)

        def fetch() -> Rows:
            nonlocal good
            good = level.check(slots)
            return [some[:good] for some in level.get(slots)]

        def sent(outcome: Written | Exception) -> None:
            # A page that changed in host memory meanwhile is dropped, or it would be sent for ever.
            self._settle(level, source, self._all(good))
            landed(outcome)

        below.worker.submit(lambda: below.write(codec, keys, start, fetch), sent)

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
        (source, ticket), theirs, ours = tickets, level.codec, below.codec

        def fetched(outcome: Read | Exception) -> None:
            level.heard(outcome, self._clock())
            if isinstance(outcome, Exception):
                below.putting -= 1
                self._settle(level, source, self._all(0), keep=True)
                self._settle(below, ticket, self._all(0))
                return
            level.judged(outcome)
            pages, good = outcome.pages, outcome.good
            self._settle(level, source, self._all(good), keep=not outcome.wrong)
            below.worker.submit(lambda: below.write(ours, keys, start, lambda: pages), landed)

        level.worker.submit(lambda: level.read(theirs, keys, start), fetched)

    def _make_way(self, place: int, keys: Keys, written: Written) -> None:
        """A store again kept fewer pages than its tier has room for, so other pages must go.

        This happens once, until the store has kept all pages of a put. A store that then still
        keeps nothing gets no pages for a while, like one that fails.
        """
        below = self.below[place]
        if not written.refused:
            below.tight = 0 if written.put else below.tight
            return
        below.tight += 1
        if below.tight == 2:
            gone = below.index.collect(below.index.counts()[0] + written.refused)
            self._evicted(below, gone)
            if gone:
                self._put_off(place, keys)
                return
        may_go = below.index.counts()[1]
        if not min(written.good) and (below.tight > 2 or not may_go):
            below.refuses(self._clock())

    def _clean(self, level: Level, place: int, doomed: list[int]) -> list[int]:
        """Back up pages that are about to be evicted and that the tier below admits; returns those
        that may be evicted now.
        """
        if self.below[place].takes_puts(self._clock()):
            lost = self._lost(level, place, doomed)
        else:  # the store gets no calls now: these pages stay until their room is needed
            lost = level.index.unbacked(doomed)
        if level.config.when_full == "drop" and level.index.counts()[0] == 0:
            # A page on its way down cannot be evicted, and another would be evicted instead.
            front = [page for _, page in level.index.order()[:1]]
            if front == doomed[:1]:
                return front
        kept = set(lost)
        clean = next((at for at, page in enumerate(doomed) if page in kept), len(doomed))
        return doomed[:clean]

    def _lost(self, level: Level, place: int, doomed: list[int]) -> list[int]:
        """Of pages that are about to be evicted, those that the tier below admits and lacks.

        This starts their transfer.
        """
        lost, below, cleaned = [], self.below[place], self._cleaned[place]
        for page in level.index.unbacked(doomed):
            prefix = level.index.prefix(page)
            chain = as_tuples(prefix)
            if cleaned.get(chain[-1]):
                continue
            wanted = self._lasting(below, self._wanted(below, prefix, EVICTED))
            if len(wanted) == len(prefix):
                lost.append(page)
                # Reading a page makes it the most recently used, which must not delay its eviction.
                cleaned.update((key, False) for key in chain[::-1] if key not in cleaned)
                self._write(place, prefix)
        return lost

    def _refuse_loss(self, rows: int) -> None:
        """With ``when_full = "refuse"``, a page that the tier below still lacks is not evicted.

        Raises:
            BusyError: Only such pages could make the room.
        """
        if self.host.config.when_full != "refuse" or not self.below:
            return
        index = self.host.index
        short = rows - index.counts()[0]
        if short <= 0:
            return
        lost = self._lost(self.host, 0, [page for _, page in index.order()[:short]])
        if lost:
            raise BusyError(
                f"{len(lost)} pages would die that {self.below[0].name} has not yet: "
                "try again after poll()"
            )

    def _put_off(self, place: int, keys: Keys) -> None:
        """A prefix waits for room below."""
        if not len(keys):
            return
        self.counters["deferred"] += 1
        waiting = self._behind[place]
        waiting[keys[-1].tobytes()] = keys
        while len(waiting) > MOST_BEHIND:
            waiting.popitem(last=False)
            self.counters["dropped"] += 1

    def _catch_up(self) -> None:
        """Try again what waited; it is counted once."""
        deferred = self.counters["deferred"]
        for place, waiting in enumerate(self._behind):
            for name in list(waiting)[:MOST_AGAIN]:
                self._write(place, waiting.pop(name))
        self.counters["deferred"] = deferred
