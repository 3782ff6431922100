"""Evicts blocks that another server holds too before those that none does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe.policies import BatchedEviction, Candidates


class LastCopy(BatchedEviction):
    """The least recently used, but a last copy counts as used 500 ticks later."""

    columns = ("last_use", "copies")
    floats = True

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        """Ticks, and what a last copy gets besides."""
        np.add(candidates["last_use"], -500.0 * (candidates["copies"] > 0), out=out)
