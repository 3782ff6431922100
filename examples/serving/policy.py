"""An eviction policy of one's own, in ten lines: the last block of the longest prefix dies first.

What many prompts share lies at their front, so the front stays. A package would name this module
in its ``kvframe.eviction`` entry points; a program that keeps it to itself registers it
(`run.registry`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import kvframe
from kvframe.policies import BatchedEviction, Candidates


class DeepestFirst(BatchedEviction):
    """Blocks far from the start of their prefix die first; equals die oldest first."""

    columns = ("depth",)

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        """Lower dies first."""
        np.negative(candidates["depth"].astype(np.float64), out=out)


@kvframe.hookimpl
def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
    """Hand the policy over."""
    return [
        kvframe.EvictionPolicy(
            name="deepest-first",
            way="batched",
            summary="the last block of the longest prefix dies first",
            source="examples/serving",
            make=lambda options: DeepestFirst(),
        )
    ]
