"""``kv.tenants``: what each tenant has of the pool, and a tenant erased."""

from __future__ import annotations

from typing import NamedTuple

from kvframe._core import Manager as Core
from kvframe.errors import UsageError
from kvframe.request import name_bytes


class TenantRow(NamedTuple):
    """What a tenant has of the pool, and what happened to it since the start.

    Attributes:
        tenant: Its name; empty for all together that are not in ``[[tenants]]``.
        used: Its blocks: owned or cached.
        cached: Of these, findable and without an owner.
        referenced: Of these, with an owner: ``used - cached``.
        floor: Blocks that no other tenant can take from it.
        quota: The most blocks that it has; None if there is no limit.
        requests: Its requests, counted once, at admission.
        prompt_tokens: Tokens of their prompts.
        hit_tokens: Of these, found in the cache.
        refused: How often it found no room.
        evicted: Its blocks that were evicted for its own sake.
        evicted_for_others: Its blocks that were evicted for others, or ahead of need.
    """

    tenant: str
    used: int
    cached: int
    referenced: int
    floor: int
    quota: int | None
    requests: int
    prompt_tokens: int
    hit_tokens: int
    refused: int
    evicted: int
    evicted_for_others: int


class PoolErasure(NamedTuple):
    """The receipt of a tenant erased in the pool.

    Attributes:
        tenant: Whose KV it was.
        freed: Blocks that were freed.
        held: Blocks that running sequences, pins and copies still own. They are found no more, and
            are free once their owners have ended.
        running: The sequences among these owners: release them to have the rest freed.
    """

    tenant: str
    freed: int
    held: int
    running: tuple[int, ...]


class Tenants:
    """``kv.tenants``: what each tenant has of the pool, and a tenant erased."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def rows(self) -> list[TenantRow]:
        """What each tenant has: all that are not in ``[[tenants]]`` first, then those, in their
        order. Empty without ``[[tenants]]``.
        """
        return [
            TenantRow._make([name.decode(), *blocks, quota, *counts])
            for name, blocks, counts, quota in self._core.tenants()
        ]

    def erase(self, tenant: str) -> PoolErasure:
        """Forget all that was computed for a tenant, whether it is in ``[[tenants]]`` or not.

        `kvframe.tiers.Tiers.erase_tenant` does so in every tier, too. Nothing is written over: a
        free block keeps its bytes until it is used again.

        Args:
            tenant: Its name.

        Raises:
            UsageError: The name is empty, or no string.
        """
        name = name_bytes("tenant", tenant)
        if not name:
            raise UsageError(
                "tenant = '': names nobody; kv.reset_prefix_cache() forgets everything"
            )
        freed = self._core.reset_prefix_cache(None, None, None, name)
        held, running = self._core.held_by_tenant(name)
        return PoolErasure(tenant, freed, held, tuple(running))
