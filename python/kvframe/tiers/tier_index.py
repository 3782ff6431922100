"""What a tier, host memory or a store, holds and has in flight, with its eviction policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from kvframe._core import TierPages
from kvframe.config.tiers import ResolvedTier
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.flat import UNKNOWN, Access
from kvframe.tiers.object_keys import Key

Keys = npt.NDArray[np.uint64]
"""A whole prefix, from its first page on: uint64 (pages, 2), low word first."""

Owners = Sequence[str | None]
"""The tenant of each page of a prefix; empty for requests that name none, None if unknown."""

Gone = list[tuple[Key, int]]
"""Pages that left, each with the place that it had."""


class PageCounts(NamedTuple):
    """How many pages of a tier are free, cached, owned, and how many are on their way."""

    free: int
    cached: int
    owned: int
    moving: int


class TierTenantRow(NamedTuple):
    """What a tenant has of a tier, and what happened to it since the start, in pages.

    Attributes:
        tenant: Its name; empty for all together that are not in ``[[tenants]]``.
        used: Its pages, on their way ones among them.
        cached: Of these, the pages that may be evicted.
        floor: Pages that no other tenant can take from it.
        quota: The most that it has; None if there is no limit.
        evicted: Its pages that were evicted for its own sake.
        evicted_for_others: Its pages that were evicted for others, or ahead of need.
    """

    tenant: str
    used: int
    cached: int
    floor: int
    quota: int | None
    evicted: int
    evicted_for_others: int


def nobody(_: Keys) -> int:
    """The number of the tenant of a prefix where tenants are not told apart."""
    return 0


Kind = Literal["counter", "gauge"]
GAUGES = frozenset(get_type_hints(PageCounts))


def kind_of(counted: str) -> Kind:
    """What an entry of a tier's statistics is: a counter only grows, a gauge may fall."""
    return "gauge" if counted in GAUGES else "counter"


class Stored(NamedTuple):
    """Pages that are to come in.

    Attributes:
        ticket: Of the transfer; 0 if all are there or on their way.
        present: Pages of the prefix that need not move.
        slots: Places of the others.
        evicted: The pages that were evicted to make room.
    """

    ticket: int
    present: int
    slots: npt.NDArray[np.uint32]
    evicted: Gone


class Ended(NamedTuple):
    """How a transfer ended, once all its parts have.

    Attributes:
        whole: Whether they have.
        good: Pages that are good in all of them.
        forgotten: Pages that are not, and what follows them.
    """

    whole: bool
    good: int
    forgotten: Gone


class TierIndex:
    """The index and the state of one tier, which the core keeps.

    Attributes:
        tenant_of: The number of the tenant of a prefix.

    Args:
        tier: Its configuration.
        block_size: Tokens of a page.
        parts: Movers of a transfer; it ends with the last of them.
    """

    def __init__(self, tier: ResolvedTier, block_size: int, parts: int) -> None:
        config = tier.config
        self.tier, self.name, self.parts = tier, config.name, parts
        chosen = tier.eviction
        terms = Terms.of(config.eviction, chosen.options, block_size)
        made = [driver(chosen.loaded, terms) for _ in range(len(tier.tenants) + 1)]
        outside = made if tier.tenants else made[0]
        self._told = 0
        self.tenant_of: Callable[[Keys], int] = nobody
        self._core = TierPages(
            pages=tier.pages,
            block_size=block_size,
            in_flight=config.in_flight,
            policy=outside if made[0] else chosen.name,
            policy_options=chosen.values,
            backed_first=config.backed_first,
            tenants=[asdict(tenant) for tenant in tier.tenants],
        )

    def find(self, keys: Keys) -> int:
        """Pages of a prefix that can be read now."""
        return self._core.find(keys)

    def present(self, keys: Keys) -> int:
        """Pages of a prefix that are here or on their way."""
        return self._core.present(keys)

    def store_some(self, keys: Keys, use: Access = UNKNOWN) -> tuple[Stored, int] | None:
        """Reserve room for what is not here of a prefix, or for as much as there is room for now.

        Returns:
            What is to come in, and how many of the prefix's pages are here then; None if there is
            room for none.
        """
        found = self._core.store_some(keys, self.parts, use.row(), self.tenant_of(keys))
        return None if found is None else (Stored(*found[0]), found[1])

    def mark(self, share: float) -> int:
        """Pages of a share of the tier, at least one."""
        return self._core.mark(share)

    def load(
        self, keys: Keys, start: int, use: Access | None = UNKNOWN
    ) -> tuple[int, npt.NDArray[np.uint32]]:
        """Open pages of a prefix from a place on: (ticket, places). ``use`` None counts no use."""
        row = None if use is None else use.row()
        ticket, slots = self._core.load(keys, start, self.parts, row)
        return ticket, slots

    def end(self, ticket: int, good: int | Sequence[int], *, keep: bool = False) -> Ended:
        """All parts of a transfer have ended, each with its first pages good; one number for all.

        ``keep``: what could not be read in time may be good all the same.
        """
        for part in [good] * self.parts if isinstance(good, int) else good:
            ended = Ended(*self._core.end(ticket, part, keep))
        return ended

    def cancel(self, ticket: int) -> Gone:
        """Cancel a transfer: the pages it brings are not findable, and `end` frees their places."""
        return self._core.cancel(ticket)

    def set_deadline(self, ticket: int, at: int) -> None:
        """When a transfer is late, in milliseconds of the caller's clock."""
        self._core.set_deadline(ticket, at)

    def expire_until(self, now: int) -> tuple[list[int], Gone]:
        """Give up what is late."""
        late, forgotten = self._core.expire_until(now)
        return late, forgotten

    def adopt(self, keys: Keys, parent: Keys | None, tenant: int = 0) -> int:
        """Take in pages that were there before, one behind the other; how many of them.

        Args:
            keys: In the order of their prefix.
            parent: The page before the first, of shape (1, 2); None where there is none.
            tenant: The number of the tenant whose pages they are.
        """
        return self._core.adopt(keys, parent, tenant)

    def touch(self, keys: Keys, use: Access = UNKNOWN) -> None:
        """A prefix is used without being read."""
        self._core.touch(keys, use.row())

    def forget(self, keys: Keys) -> Gone:
        """Forget pages and what follows them."""
        return self._core.forget(keys)

    def clear(self) -> Gone:
        """Forget every page, those on their way too."""
        return self._core.clear()

    def set_backed(self, keys: Keys, backed: bool) -> None:
        """Record which pages the tier below has too."""
        self._core.set_backed(keys, backed)

    def first(self, most: int) -> list[int]:
        """The pages that are evicted next, so many of them, as far as that is settled."""
        return [page for _, page in self._core.order(most)]

    def unbacked(self, pages: Sequence[int]) -> list[int]:
        """Of these pages, those that the tier below lacks."""
        backed = self._core.backed(pages)
        return [page for page, has in zip(pages, backed, strict=True) if not has]

    def prefix(self, page: int) -> Keys:
        """The prefix that ends with a page."""
        return as_keys(self._core.prefix(page))

    def stored(self) -> Gone:
        """Every page that can be read."""
        return self._core.stored()

    def evict_until(self, free: int) -> Gone:
        """Evict until so many pages are free."""
        return self._core.evict_until(free)

    def evict_backed(self, keys: Keys, most: int) -> Gone:
        """Evict up to ``most`` of these pages: those that may be evicted and that the tier below
        has.
        """
        return self._core.evict_backed(keys, most)

    def take(self, pages: int, tenant: int) -> tuple[npt.NDArray[np.uint32], Gone]:
        """Places for a tenant's pages that the caller tracks itself, and the evicted."""
        slots, evicted = self._core.take(pages, tenant)
        return slots, evicted

    def free(self, pages: Sequence[int] | npt.NDArray[Any]) -> None:
        """Take such places back."""
        self._core.free(pages)

    def counts(self) -> PageCounts:
        """How many pages are free, cached, owned, on their way."""
        return PageCounts(*self._core.counts())

    def room(self, tenant: int) -> tuple[int, int]:
        """(free, all) pages as a tenant has them."""
        return self._core.room(tenant)

    def tenants(self) -> list[TierTenantRow]:
        """What each tenant has, all that are not in ``[[tenants]]`` first."""
        names = ["", *(tenant.name for tenant in self.tier.tenants)]
        rows = self._core.tenants()
        return [TierTenantRow(name, *row) for name, row in zip(names, rows, strict=False)]

    def stats(self) -> dict[str, int]:
        """What has happened, by name."""
        return self._core.stats()

    def take_unbacked(self) -> int:
        """Pages evicted since the last call that the tier below had not."""
        before, self._told = self._told, self.stats()["unbacked"]
        return self._told - before

    def watch(self) -> None:
        """Note what comes and goes from now on; every page that can be read now comes first."""
        self._core.watch()

    def take_changes(self) -> tuple[list[bytes], list[tuple[bytes, bytes | None]]]:
        """Keys of pages that left since the last call, then of those that can be read since, each
        with its parent's.
        """
        return self._core.take_changes()

    def check_integrity(self) -> None:
        """Recount the index.

        Raises:
            IntegrityError: Something disagrees.
        """
        self._core.check_integrity()


def as_keys(keys: Iterable[Key]) -> Keys:
    """Keys as an array."""
    return np.array(list(keys), np.uint64).reshape(-1, 2)


def as_tuples(keys: Keys) -> list[Key]:
    """The other way round."""
    return [(low, high) for low, high in keys.tolist()]


def keys_of(gone: Gone) -> Keys:
    """The keys of pages that left."""
    return as_keys(key for key, _ in gone)
