"""What the tiers of one manager share: the levels, and what enters and leaves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

from kvframe.errors import HandleError
from kvframe.flat import UNKNOWN, Access
from kvframe.manager import KVCacheManager
from kvframe.tiers.host import HostTier
from kvframe.tiers.object_keys import Key
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.tier_index import Gone, Keys, Owners, Stored, as_tuples, keys_of, nobody
from kvframe.tiers.uses import Uses

Level = HostTier | StoreTier


MOVES = (
    *("offloaded", "onboarded", "demoted", "promoted", "swapped_out", "swapped_in"),
    *("failed_swaps", "recomputed", "computed_instead", "deferred", "dropped"),
)
"""The counters between tiers."""


class PollResult(NamedTuple):
    """Loads that have ended.

    Attributes:
        rewound: Sequences whose load brought less than it promised: they are cut to what is good;
            `KVCacheManager.extend` gives the slots back.
        landed: Sequences whose load has arrived, or part of it. A fork lands with the sequence that
            it was forked from; where that has ended, the forks are named.
    """

    rewound: list[int]
    landed: list[int]


class Levels:
    """Tiers from the nearest down: host memory first, then stores.

    Attributes:
        all: Every tier.
        tenant_of: The number of the tenant of a prefix.
        owners: The names of the tenants of its pages.
        counters: Pages by direction, and what became of others.
        arrived: What the next poll reports.
        starved: Loads that wait for what is on its way in host memory.
        cleaned: By tier: pages demoted ahead of their eviction, and whether the lower tier has
            dropped them since (do not send those again).
    """

    def __init__(
        self, host: HostTier, below: Sequence[StoreTier], clock: Callable[[], int]
    ) -> None:
        self.host, self.below, self.clock = host, below, clock
        self.all: list[Level] = [host, *below]
        self._numbers = {one.name: at + 1 for at, one in enumerate(host.index.tier.tenants)}
        self.tenant_of: Callable[[Keys], int] = nobody
        self.owners: Callable[[Keys], Owners] = lambda keys: [None] * len(keys)
        self.uses = Uses([level.gate for level in self.all], lambda keys: self.tenant_of(keys))
        self.counters: Counter[str] = Counter(dict.fromkeys(MOVES, 0))
        self.arrived = PollResult([], [])
        self.starved: set[object] = set()
        self.cleaned: list[dict[Key, bool]] = [{} for _ in below]

    def up(self) -> list[Level]:
        """The tiers that answer now."""
        now = self.clock()
        return [self.host, *(below for below in self.below if below.is_up(now))]

    def marked(self, level: Level, share: float) -> int:
        """The number of pages in a share of the tier, such as its high mark; at least 1.

        For the last tier it is every page. No tier below keeps what the last one evicts, so making
        room ahead would only lose pages.
        """
        pages = level.index.tier.pages
        if level is self.all[-1]:
            return pages
        return level.index.mark(share)

    def lasting(self, level: Level, keys: Keys) -> Keys:
        """The part of a prefix that a tier would not evict again at once.

        A tier evicts what goes past its high mark, and the next request would bring it again.
        """
        most = min(self.marked(level, level.config.high), level.index.room(self.tenant_of(keys))[1])
        return keys[: max(level.index.present(keys), most)]

    def number(self, tenant: str) -> int:
        """The number of a tenant: its place in ``[[tenants]]``, from 1; 0 for all others."""
        return self._numbers.get(tenant, 0)

    @property
    def tells_tenants(self) -> bool:
        """Whether tenants have shares of the tiers."""
        return bool(self._numbers)

    def tell_tenants(self, tenant_of: Callable[[Keys], int]) -> None:
        """From now on this says whose pages come in, if tenants have shares of the tiers."""
        if not self._numbers:
            return
        self.tenant_of = tenant_of
        for level in self.all:
            level.index.tenant_of = tenant_of

    # --- what enters ----------------------------------------------------------------------------

    def wanted(
        self, level: Level, keys: Keys, occasion: int | None = None, use: Access = UNKNOWN
    ) -> Keys:
        """What of a prefix a tier has or lets in; by default, as pages are computed or used."""
        start = level.index.present(keys)
        return keys[: start + self.uses.admitted(level.gate, keys, start, occasion, use)]

    def reserve(
        self, level: Level, keys: Keys, use: Access = UNKNOWN
    ) -> tuple[Stored, Keys] | None:
        """Room for as much of a prefix as there is room for; None if there is none now.

        What is evicted for it has left the tier.
        """
        found = level.index.store_some(keys, use)
        if found is None:
            return None
        stored, taken = found
        self.evicted(level, stored.evicted)
        return stored, keys[:taken]

    def settle(
        self, level: Level, ticket: int, good: int | Sequence[int], *, keep: bool = False
    ) -> int:
        """End a transfer with so many pages good, of each part; returns those good in all parts."""
        ended = level.index.end(ticket, good, keep=keep)
        self.left(level, ended.forgotten)
        return ended.good

    def give_up(self, level: Level, ticket: int) -> None:
        """Cancel a transfer that may have ended, or been given up, before."""
        try:
            gone = level.index.cancel(ticket)
        except HandleError:
            return
        self.left(level, gone)

    def set_deadline(self, level: Level, ticket: int) -> None:
        """When a transfer that begins now is late."""
        if level.config.timeout_ms is not None and ticket:
            level.index.set_deadline(ticket, self.clock() + ceil(level.config.timeout_ms))

    def note_backed(self, place: int, keys: Keys) -> None:
        """Pages that a tier and the one right below it both have by now."""
        above, below = self.all[place], self.all[place + 1]
        both = min(above.index.find(keys), below.index.find(keys))
        above.index.set_backed(keys[:both], True)

    # --- what leaves ----------------------------------------------------------------------------

    def used(self, level: Level, keys: Keys) -> None:
        """A request uses pages, so they are no longer about to be evicted."""
        place = self.all.index(level)
        if place < len(self.below) and self.cleaned[place]:
            for key in as_tuples(keys):
                self.cleaned[place].pop(key, None)

    def evicted(self, level: Level, gone: Gone) -> None:
        """Pages have made room in a tier."""
        place = self.all.index(level)
        if gone and place < len(self.below):
            self.counters["dropped"] += level.index.take_unbacked()
        if place:
            cleaned = self.cleaned[place - 1]
            cleaned.update((key, True) for key, _ in gone if key in cleaned)
        self.left(level, gone)

    def left(self, level: Level, gone: Gone) -> None:
        """Handle pages that are no longer in a tier, for whatever reason."""
        if not gone:
            return
        if isinstance(level, StoreTier):
            level.drop(gone, self.clock())
        else:
            level.left(gone)
        place = self.all.index(level)
        if place:
            self.all[place - 1].index.set_backed(keys_of(gone), False)
        if place < len(self.below):
            for key, _ in gone:
                self.cleaned[place].pop(key, None)

    def put_back(self, arrived: PollResult) -> None:
        """The next poll reports this first, again."""
        self.arrived.rewound[:0] = arrived.rewound
        self.arrived.landed[:0] = arrived.landed

    def take_arrived(self) -> PollResult:
        """What has arrived since it was taken last."""
        arrived, self.arrived = self.arrived, PollResult([], [])
        return arrived


def is_running(kv: KVCacheManager, seq: int) -> bool:
    """Whether a sequence has not ended meanwhile."""
    try:
        kv.lengths(seq)
    except HandleError:
        return False
    return True
