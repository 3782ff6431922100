"""The data plane: KV bytes in pages. The manager names blocks; only this file touches bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from examples.serving.shape import Shape

from kvframe import CopyPlan

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]


class Pages:
    """Keys and values of every layer, in pages of ``block_size`` tokens.

    A page holds NaN wherever its present owner has written nothing. NaN spreads through everything
    computed from it, so one read of a wrong, stale or missing slot shows in the logits.

    Args:
        blocks: Blocks of the manager's pool.
        block_size: Tokens in a block.
        shape: Of the model.
        seed: Of the permutation from block ids to pages.
    """

    def __init__(self, blocks: int, block_size: int, shape: Shape, seed: int = 0) -> None:
        self.block_size = block_size
        # One page more, which nobody writes: block tables are padded with -1, and page[-1] is it.
        page = (block_size, shape.kv_heads, shape.head_dim)
        self.data = np.full((shape.layers, 2, blocks + 1, *page), np.nan)
        # Ids are names, not places. A loop that confuses them works until they differ, so here
        # they differ from the start.
        self.page = np.append(np.random.default_rng(seed).permutation(blocks), blocks)

    def write(self, layer: int, slots: Ints, keys: Floats, values: Floats) -> None:
        """Store a token's key and value in each slot (block x block size + offset)."""
        page, offset = self.page[slots // self.block_size], slots % self.block_size
        self.data[layer, 0, page, offset] = keys
        self.data[layer, 1, page, offset] = values

    def read(self, layer: int, table: Ints) -> tuple[Floats, Floats]:
        """Keys and values behind a block table, each (tokens, KV heads, head dim)."""
        found = self.data[layer][:, self.page[table]]
        keys, values = found.reshape(2, -1, *found.shape[3:])
        return keys, values

    def poison(self, blocks: Ints) -> None:
        """Forget what these blocks held, as when they have just been given to somebody else."""
        self.data[:, :, self.page[blocks]] = np.nan

    def copy(self, plan: CopyPlan) -> None:
        """Carry out a plan's copies, in order. What was not asked for is not copied."""
        for source, target, tokens, _group in plan.copies:
            self.poison(np.array([target]))
            kept = self.data[:, :, self.page[source], :tokens]
            self.data[:, :, self.page[target], :tokens] = kept
