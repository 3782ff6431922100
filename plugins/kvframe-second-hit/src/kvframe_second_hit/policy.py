"""Cache on second hit: what is asked for once in a while is not worth a place.

B. Maggs and R. Sitaraman, "Algorithmic Nuggets in Content Delivery", ACM SIGCOMM CCR 45(3), 2015:
three quarters of what a content network serves is asked for once; Bloom filters keep it out.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies import Arrivals, BatchedAdmission
from kvframe_second_hit.bloom import ForgettingBloom, Keys


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of second-hit."""

    capacity: Annotated[
        int,
        msgspec.Meta(ge=1, le=2**30, description="Blocks whose first use is remembered at least."),
    ] = 131072
    error: Annotated[
        float,
        msgspec.Meta(gt=0, lt=1, description="Share of blocks that are kept on their first use."),
    ] = 0.01


class SecondHit(BatchedAdmission):
    """Keeps blocks that a second request within memory has found or computed."""

    columns = ("key",)

    def __init__(self, options: Options) -> None:
        self._once = ForgettingBloom(options.capacity, options.error)
        self._again = ForgettingBloom(options.capacity, options.error)

    def seen(self, keys: Keys, now: int) -> None:
        """A key that was seen before, or twice in this very step, is seen again."""
        unique, counts = np.unique(keys, axis=0, return_counts=True)
        again = self._once.has(unique) | (counts > 1)
        self._again.add(unique[again])
        self._once.add(unique)

    def admit(self, blocks: Arrivals, tier: str, out: npt.NDArray[np.uint8]) -> None:
        """Keep what was seen again; the core drops what lies behind a dropped block."""
        out[:] = self._again.has(blocks["key"])
