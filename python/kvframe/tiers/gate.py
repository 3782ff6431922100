"""Whether pages enter a tier: the admission policies of the pool, asked for the tiers below it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe._core import TierGate
from kvframe.config.tiers import ResolvedTier
from kvframe.drivers.admission import driver
from kvframe.drivers.asker import Terms
from kvframe.flat import UNKNOWN, Access
from kvframe.tiers.tier_index import Keys, TierIndex

COMPUTED, USED, EVICTED = 0, 1, 2
"""Why pages might enter now, as `kvframe.policies.admission.OCCASIONS` counts."""

Uses = npt.NDArray[np.uint32]


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
        self._asked = TierGate(driver(chosen.loaded, terms) or self.name, chosen.values)
        self._index, self._kind, self._block_size = index, kind, block_size
        self._now = 0
        # Where every page enters at once, uses need no count.
        values = chosen.values
        at_once = {"always", "write-back"}
        self.counts_uses = self.name not in at_once and not (
            self.name == "write-through" and values.get("uses") in (None, 1)
        )

    def seen(self, keys: Keys) -> None:
        """A request has found or computed these pages."""
        self._asked.seen(keys, self._now)

    def takes(
        self, keys: Keys, start: int, uses: Uses, occasion: int, use: Access = UNKNOWN
    ) -> int:
        """How many pages of a prefix, from the place ``start`` on, enter.

        Args:
            keys: The whole prefix.
            start: Pages that need not be asked about.
            uses: Of each page behind ``start``, in the tier above.
            occasion: `COMPUTED`, `USED` or `EVICTED`.
            use: The request.
        """
        if start >= len(keys):
            return 0
        self._now += 1
        free, *_ = self._index.counts()
        about = (self._now, self._kind, occasion, free, self._index.tier.pages)
        verdicts = self._asked.admit(keys[start:], start, self._block_size, uses, use.row(), about)
        dropped = np.flatnonzero(verdicts == 0)
        return int(dropped[0]) if len(dropped) else len(verdicts)
