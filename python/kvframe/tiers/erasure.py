"""A tenant erased in the pool and in every tier, and the receipt of it."""

from __future__ import annotations

from typing import NamedTuple

from kvframe.manager import KVCacheManager
from kvframe.tenants import PoolErasure
from kvframe.tiers.base import Levels
from kvframe.tiers.names import Scope
from kvframe.tiers.origins import Origins
from kvframe.tiers.store_tier import StoreTier
from kvframe.tiers.swap import Swap


class TierErasure(NamedTuple):
    """What became of a tenant's pages in one tier.

    Attributes:
        tier: The tier's name.
        pages: Pages that left it.
        waiting: Pages, other tenants' among them, that have left it and whose removal its store has
            not confirmed yet; `Tiers.poll` carries removals out, and tries again what failed.
        shared: Whether others write to its store. What they wrote there stays, and what this engine
            wrote they may still have; this engine finds none of it any more.
    """

    tier: str
    pages: int
    waiting: int
    shared: bool


class Erasure(NamedTuple):
    """The receipt of a tenant erased.

    Attributes:
        pool: What was erased in the pool, and what running sequences still hold.
        tiers: The same of each tier, nearest first.
        swapped: Sequences that were swapped out: they are computed again, and their pages in host
            memory are free once they have come back or were dropped.
    """

    pool: PoolErasure
    tiers: tuple[TierErasure, ...]
    swapped: int

    @property
    def complete(self) -> bool:
        """Whether nothing is held, waits, or lies where this engine cannot reach."""
        held = self.pool.held or self.swapped
        return not held and not any(tier.waiting or tier.shared for tier in self.tiers)


def erased(
    tenant: str, kv: KVCacheManager, levels: Levels, origins: Origins, swap: Swap
) -> Erasure:
    """Erase a tenant; see `Tiers.erase_tenant`."""
    pool = kv.tenants.erase(tenant)
    scope = Scope(None, None, tenant=tenant)
    counts = origins.forget(scope)
    swapped = swap.forget(scope)
    rows = []
    for level, pages in zip(levels.all, counts, strict=True):
        below = level if isinstance(level, StoreTier) else None
        if below is not None:
            below.tend(levels.clock(), last=True)
        waiting = 0 if below is None else below.unremoved()
        shared = below is not None and below.shared
        rows.append(TierErasure(level.index.name, pages, waiting, shared))
    return Erasure(pool, tuple(rows), swapped)
