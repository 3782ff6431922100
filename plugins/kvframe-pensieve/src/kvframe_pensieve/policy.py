"""Retention value: what a block would cost to compute anew, by how long nobody used it.

"Stateful Large Language Model Serving with Pensieve", EuroSys 2025, arXiv 2312.05516, section 4.3.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies import BatchedEviction, Candidates


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of pensieve."""

    attention_blocks: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=2**32 - 1,
            description="Blocks before one for which attention takes as much as all the rest.",
        ),
    ] = 2048


class RetentionValue(BatchedEviction):
    """Lowest cost / idle time first; cost is 1 for a prefix's first block and grows with depth.

    A block attends to all before it, so its cost is linear in its depth. Idle time is in ticks
    since the last use; only ratios of it matter, so the policy has no time scale to set.
    """

    columns = ("last_use", "depth")
    # The value falls with age, but a deep block of middle age is worth more than a shallow one of
    # today: they are far apart in LRU order.
    window = 1024

    def __init__(self, options: Options) -> None:
        self._attention_blocks = options.attention_blocks

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        """Write the retention value."""
        idle = candidates.now - candidates["last_use"] + np.uint64(1)
        np.divide(1 + candidates["depth"] / self._attention_blocks, idle, out=out)
