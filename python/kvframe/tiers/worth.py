"""Whether what tiers have of a prompt is loaded, or computed again because that is faster."""

from __future__ import annotations

from kvframe.tiers.base import Levels
from kvframe.tiers.cost import SwapCost
from kvframe.tiers.moves import Moves
from kvframe.tiers.tier_index import Keys

RETRY = 16
"""Of so many prompts that would be computed again in a row, one is loaded all the same: a bandwidth
that was measured in a bad moment does not stay for ever."""


class Worth:
    """Compares a load with the prefill that it saves.

    Args:
        levels: The tiers.
        moves: Copies between the pool and host memory, and how fast they were.
    """

    def __init__(self, levels: Levels, moves: Moves) -> None:
        self._levels, self.moves = levels, moves
        self._left = 0

    def takes(self, keys: Keys, found: int, cached: int, block_size: int, cost: SwapCost) -> bool:
        """Whether to load pages behind those that the pool has; those that are left are counted.

        Args:
            keys: Of the prompt.
            found: Pages at its front that a tier has, or that are on their way to host memory.
            cached: Tokens at its front that the pool has.
            block_size: Tokens of a page.
            cost: What computing takes, and bandwidths where none have been measured.
        """
        pages = found - cached // block_size
        if pages <= 0:
            return True
        seconds = self.seconds(keys, found, pages, cost)
        if seconds < cost.recompute_seconds(pages * block_size, cached):
            self._left = 0
            return True
        self._left += 1
        if self._left % RETRY == 0:
            return True
        self._levels.counters["computed_instead"] += pages
        return False

    def seconds(self, keys: Keys, found: int, pages: int, cost: SwapCost) -> float:
        """What it takes to bring the last ``pages`` of ``found`` pages to the pool."""
        levels, size = self._levels, self.moves.page_bytes
        cost = cost.measured(None, self.moves.in_rate.value)
        here = levels.host.index.present(keys[:found])
        below = min(found - here, pages)
        seconds = cost.load_seconds(pages * size)
        if checked := self.moves.check_rate.value:
            seconds += pages * size / checked
        for level in levels.below:
            if below > 0 and level.index.find(keys) >= found:
                # Until something was read from it, a store counts as being as fast as the bus.
                return seconds + below * size / (level.rate.value or cost.bandwidth_in)
        return seconds
