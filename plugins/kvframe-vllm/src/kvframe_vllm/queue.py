"""vLLM's free queue, in the order of a kvframe policy.

vLLM calls what `FreeKVCacheBlockQueue` has; the pool (`kvframe_vllm.pool`) notifies besides which
blocks were found, became findable, or are not any more. What vLLM tells block by block is gathered,
so that the policy is called once a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

from kvframe.block_queue import BlockQueue
from kvframe.config import Resolved
from kvframe.flat import UNKNOWN, Access

Block = Any
"""vLLM's KVCacheBlock."""


class PolicyQueue:
    """The free blocks of a pool: unhashed ones, last freed first, then the policy's order.

    Args:
        blocks: The pool's, by id. All have an owner until they are freed here.
        resolved: Whose ``[eviction]`` names the policy.
        block_size: Tokens in a block.
        give_up: Called with what a policy's queue raised: puts vLLM's own queue into the pool, of
            the blocks that have no owner by their ``ref_cnt``, and returns it.

    Attributes:
        num_free_blocks: Blocks without an owner.
        core: kvframe's queue.
        hit_blocks: Blocks that requests have found.
        deferring: Whether blocks are appended to be taken after all others.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        resolved: Resolved,
        block_size: int,
        give_up: Callable[[Exception], Any],
    ) -> None:
        self.core = BlockQueue(resolved, len(blocks), block_size=block_size)
        self.num_free_blocks = 0
        self.hit_blocks = 0
        self.deferring = False
        self._live = True
        self._blocks, self._give_up = blocks, give_up
        self._unknown: list[int] = []
        self._bare: list[int] = []

    # --- what vLLM calls --------------------------------------------------------------------------

    def popleft(self) -> Block:
        """Take the first block."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[Block]:
        """Take the first ``n`` blocks."""
        if n == 0:
            return []
        assert self.num_free_blocks >= n
        try:
            self._settle()
            taken = self.core.take(n)
        except Exception as error:
            # Nothing was taken: vLLM's own queue has all of them.
            own: list[Block] = self._fail(error).popleft_n(n)
            return own
        self.num_free_blocks -= n
        return list(map(self._blocks.__getitem__, taken))

    def remove(self, block: Block) -> None:
        """Take a block that a request found; the pool says which others it found."""
        self.num_free_blocks -= 1
        if block._block_hash is None:
            self._unknown.append(block.block_id)

    def prepend_n(self, blocks: list[Block]) -> None:
        """Blocks without a hash lost their last owner, the first of them to be taken next."""
        self._bare = [block.block_id for block in reversed(blocks)]
        self.num_free_blocks += len(blocks)

    def append_n(self, blocks: list[Block]) -> None:
        """Blocks with a hash lost their last owner: a prefix from its end."""
        freed = [block.block_id for block in reversed(blocks)]
        self.num_free_blocks += len(blocks)
        if self.deferring:
            self._tell(self.core.defer, freed[::-1])
        elif self._bare:
            bare, self._bare = self._bare, []
            # vLLM may have dropped a hash while its block had an owner.
            self._tell(self.core.remove, bare)
            self._tell(self.core.free, bare + freed)
        elif freed:
            self._tell(self.core.free, freed)

    def append(self, block: Block) -> None:
        """One block lost its last owner."""
        self.append_n([block])

    def get_all_free_blocks(self) -> list[Block]:
        """The free blocks, the next first."""
        self._settle()
        return [self._blocks[block] for block in self.core.order()]

    def iter_blocks_after(self, cursor: Block | None) -> Iterator[Block]:
        """Free blocks in the order in which they would be taken now, from behind ``cursor`` on."""
        order = self.get_all_free_blocks()
        at = 0 if cursor is None else order.index(cursor) + 1 if cursor in order else len(order)
        return iter(order[at:])

    # --- what the pool notifies -------------------------------------------------------------------

    def found(self, blocks: Sequence[Block]) -> None:
        """A request found these, and owns them now; `remove` was called for those without owner."""
        hits = [block.block_id for block in blocks if block._block_hash is not None]
        if self._unknown:
            # No policy has these: the call fails, and vLLM's own queue goes on.
            hits += self._unknown
        self.hit_blocks += len(hits)
        if hits:
            self._tell(self.core.hit, hits)

    def entered(
        self,
        blocks: Sequence[Block],
        depths: Sequence[int],
        use: Access = UNKNOWN,
        mask: Sequence[bool] | None = None,
    ) -> None:
        """Blocks of a request have a new hash, each at its place; those without one are passed
        over, and those that the mask leaves out.
        """
        ids = [block.block_id for block in blocks]
        keys = [block._block_hash for block in blocks]
        if mask is not None or not all(keys):
            kept = [key is not None and (mask is None or mask[at]) for at, key in enumerate(keys)]
            ids, keys, depths = (list(compress(each, kept)) for each in (ids, keys, depths))
        if ids:
            self._tell(self.core.insert, ids, keys, depths, use)

    def lost(self, blocks: Iterable[int]) -> None:
        """Blocks have no hash any more."""
        self._tell(self.core.remove, list(blocks))

    def reset(self) -> None:
        """No block has a hash any more; the policy begins anew. Free blocks keep their order."""
        if self._live:
            try:
                order = self.core.order()
                self.core = self.core.renewed()
                self.core.free(order[::-1])
            except Exception as error:
                self._fail(error)

    # --- all calls of the policy ------------------------------------------------------------------

    def _tell(self, call: Callable[..., None], *given: Any) -> None:
        """Call the policy; by now the pool's ``ref_cnt`` say the same as the call."""
        if self._live:
            try:
                self._settle()
                call(*given)
            except Exception as error:
                self._fail(error)

    def _settle(self) -> None:
        """Pass on what is gathered still: the pool ends each of its calls with none left."""
        if self._bare:
            bare, self._bare = self._bare, []
            self.core.remove(bare)
            self.core.free(bare)

    def _fail(self, error: Exception) -> Any:
        """Ends this queue; returns vLLM's own, which the pool has from now on."""
        self._live = False
        return self._give_up(error)
