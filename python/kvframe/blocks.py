"""Single blocks, for engines that keep track of requests themselves (vLLM's BlockPool, nano-vllm).

The engine keeps its sequences, hits and copies; kvframe has the blocks, the index and the policy.
Both ways work on one manager: what a sequence leaves cached is found here, and vice versa.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.errors import CapacityError, UsageError
from kvframe.manager import KVCacheManager

Blocks = npt.NDArray[np.integer[Any]] | Sequence[int]
Keys = npt.NDArray[np.uint64]


class BlockPool:
    """The blocks of a manager, taken, published, found, held and freed one by one.

    Args:
        manager: One layer group; its policy ranks what dies.

    Every call takes a batch and does all of it or nothing.
    """

    def __init__(self, manager: KVCacheManager) -> None:
        if not isinstance(manager, KVCacheManager):
            raise UsageError(f"manager = {shown(manager)}: must be a KVCacheManager")
        self.manager = manager
        self._core = manager._core

    def available(self) -> int:
        """Blocks that `take` could get now: free, or cached and evictable."""
        return self.manager.counts().available

    def take(self, count: int) -> npt.NDArray[np.int32]:
        """Take ``count`` blocks that nobody else has, each held once; evicts cached ones if needed.

        Raises:
            CapacityError: So many cannot be had.
            UsageError: ``count`` is no integer of at least 0.
        """
        counts = self.manager.counts()
        if not is_int(count) or count < 0:
            raise UsageError(f"count = {shown(count)}: must be an integer of at least 0")
        if count > counts.total:  # Before there is an array for them.
            raise CapacityError(
                f"needs {shown(count)} blocks, but only {counts.available} are free or evictable "
                f"of {counts.total}"
            )
        out = np.empty(int(count), np.int32)
        self._core.lend(out)
        return out

    def publish(self, block: int, key: Keys, parent: int | None = None) -> int | None:
        """Make a taken block findable; it is full, computed and accepted.

        Args:
            block: From `take`, not published before.
            key: uint64 of shape (2,): a row of `KVCacheManager.hash_blocks`, or the caller's own
                128 bits of hash. It must cover everything that the KV depends on.
            parent: The published block before it, held by the caller. Without parents every block
                is its own leaf, so a prefix may be evicted from its front.

        Returns:
            A block that was findable under the key before (and still is), or None.

        Raises:
            UsageError: The block is not on loan, or the parent not published and held.
        """
        keys = key[None] if isinstance(key, np.ndarray) and key.ndim == 1 else key
        return self._core.publish_block(block, keys, parent)

    def find(self, keys: Keys) -> npt.NDArray[np.int32]:
        """The blocks under ``keys``, uint64 (n, 2), up to the first that is not there."""
        blocks: npt.NDArray[np.int32] = self._core.find_blocks(keys)
        return blocks

    def touch(self, blocks: Blocks, generations: Blocks | None = None) -> None:
        """Hold each block once more, so that it is not evicted; a prefix from its front on.

        Args:
            blocks: From `find`, or held already.
            generations: As `generations` returned them; a block that was freed and taken again
                since then is refused.

        Raises:
            UsageError: A block is neither findable nor held, or follows one that is not held.
        """
        self._core.claim_blocks(blocks, generations)

    def free(self, blocks: Blocks, generations: Blocks | None = None) -> None:
        """Hold each block once less, in the order of a block table.

        Blocks that nobody holds any more stay cached if they were published; the last of them is
        evicted first.

        Raises:
            UsageError: A block is not held so often (a double free), was freed and taken again
                since, or is followed by one that is still held.
        """
        self._core.free_blocks(blocks, generations)

    def holds(self, blocks: Blocks) -> npt.NDArray[np.uint32]:
        """How often each block is held."""
        counts: npt.NDArray[np.uint32] = self._core.holds(blocks)[0]
        return counts

    def generations(self, blocks: Blocks) -> npt.NDArray[np.uint32]:
        """How often each id was freed, which tells a block from a later one of the same id."""
        generations: npt.NDArray[np.uint32] = self._core.holds(blocks)[1]
        return generations
