"""Whether pages enter a tier: the admission policies of the pool, asked for the tiers below it."""

from __future__ import annotations

from kvframe._core import PageUses, TierGate
from kvframe.config.tiers import ResolvedTier
from kvframe.drivers.admission import driver
from kvframe.drivers.asker import Terms
from kvframe.flat import UNKNOWN, Access
from kvframe.tiers.tier_index import Keys, TierIndex

COMPUTED, USED, EVICTED = 0, 1, 2
"""Why pages might enter now, as `kvframe.policies.admission.OCCASIONS` counts."""


class Gate:
    """One tier's admission policy.

    Pages of a tier are closed under prefix, so after one that is dropped nothing of its prefix
    enters. A page that is for the tier below (`LOWER`) passes through this one.

    Args:
        tier: Its configuration.
        index: What it holds.
        kind: The tier's name for policies: ``host``, ``disk`` or ``remote``.
        block_size: Tokens of a page.
    """

    def __init__(self, tier: ResolvedTier, index: TierIndex, kind: str, block_size: int) -> None:
        chosen = tier.admission
        self.name = chosen.name
        terms = Terms.of(tier.config.admission, chosen.options, block_size)
        # What a tenant's policy remembers, and its clock, say nothing of other tenants.
        self._asked = [
            TierGate(driver(chosen.loaded, terms) or self.name, chosen.values)
            for _ in range(len(tier.tenants) + 1)
        ]
        self._index, self._kind, self._block_size = index, kind, block_size
        self._now = [0] * len(self._asked)
        self.counts_uses = self._asked[0].counts_uses()

    def seen(self, keys: Keys) -> None:
        """A request has found or computed these pages."""
        tenant = self._index.tenant_of(keys)
        self._asked[tenant].seen(keys, self._now[tenant])

    def takes(
        self, keys: Keys, start: int, uses: PageUses, occasion: int | None, use: Access = UNKNOWN
    ) -> int:
        """How many pages of a prefix, from the place ``start`` on, enter.

        Args:
            keys: The whole prefix.
            start: Pages that need not be asked about.
            uses: Of pages in the tier above.
            occasion: `COMPUTED`, `USED` or `EVICTED`; by default `USED` if the page at ``start``
                was used before, else `COMPUTED`.
            use: The request.
        """
        if start >= len(keys):
            return 0
        tenant = self._index.tenant_of(keys)
        self._now[tenant] += 1
        about = (self._now[tenant], self._kind, occasion, *self._index.room(tenant))
        return self._asked[tenant].admitted(
            keys[start:], start, self._block_size, uses, use.row(), about
        )
