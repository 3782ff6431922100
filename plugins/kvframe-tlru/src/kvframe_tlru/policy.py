"""T-LRU: what the next prefill can recompute within its budget is evicted first.

"Tail-Optimized Caching for LLM Inference", arXiv 2510.15152; SGLang's ``tlru``.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies import BatchedEviction, Candidates

_SAFE_FIRST = 2.0**53
"""Taken off the score of safe blocks. Ticks stay below it, so every score is exact."""

Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of t-lru, in tokens. threshold must be above next_prompt_estimate."""

    threshold: Annotated[
        Tokens,
        msgspec.Meta(description="Tokens that one prefill may compute within its TTFT budget."),
    ] = 8192
    next_prompt_estimate: Annotated[
        Tokens, msgspec.Meta(description="Tokens that the next turn is expected to add.")
    ] = 1024

    def __post_init__(self) -> None:
        # Otherwise not even an empty cache would do, and no block could be safe.
        if self.threshold <= self.next_prompt_estimate:
            raise ValueError(
                f"threshold = {self.threshold} must be above "
                f"next_prompt_estimate = {self.next_prompt_estimate}"
            )


class TailOptimizedLru(BatchedEviction):
    """Safe blocks before all others; within each class the least recently used.

    A block is safe if its loss keeps the next prefill within ``threshold``: the longest request
    through it comes back, longer by ``next_prompt_estimate``, and finds what precedes the block.
    The core takes a block after those that follow it, so all that precedes it is then still there.
    """

    columns = ("last_use", "depth", "reach")
    # Among a few of the least recently used, hardly a safe block is found: that would be LRU.
    window = 0

    def __init__(self, options: Options) -> None:
        self._spare = options.threshold - options.next_prompt_estimate

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        """Write the tick of the last use, shifted below all others for safe blocks."""
        before = candidates["depth"].astype(np.int64) * candidates.block_size
        # The paper's before >= max(0, reach + estimate - threshold), as before is never below 0.
        safe = candidates["reach"] - before <= self._spare
        np.subtract(candidates["last_use"], _SAFE_FIRST * safe, out=out)
