"""vLLM's free queue, in the order of a kvframe policy.

vLLM calls what `FreeKVCacheBlockQueue` has; the pool (`kvframe_vllm.pool`) notifies besides which
blocks were found, became findable, or are not any more. What vLLM tells block by block is gathered,
so that the policy is called once a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        taking: Whether the pool takes blocks, whose hashes it then removes itself.
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
        self.taking = False
        self._live = True
        self._blocks, self._give_up = blocks, give_up
        self._removed: list[int] = []
        self._bare: list[Block] = []
        self._entered: tuple[list[int], list[bytes], list[int]] = ([], [], [])

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
        blocks = self._blocks
        return [blocks[block] for block in taken]

    def remove(self, block: Block) -> None:
        """Take a block that a request found; the pool says which others it found."""
        self._removed.append(block.block_id)
        self.num_free_blocks -= 1

    def prepend_n(self, blocks: list[Block]) -> None:
        """Blocks without a hash lost their last owner, the first of them to be taken next."""
        self._bare = blocks
        self.num_free_blocks += len(blocks)

    def append_n(self, blocks: list[Block]) -> None:
        """Blocks with a hash lost their last owner: a prefix from its end."""
        if self.deferring:
            self.num_free_blocks += len(blocks)
            self._tell(self.core.defer, [block.block_id for block in blocks])
            return
        freed = [block.block_id for block in reversed(self._bare)]
        freed += [block.block_id for block in reversed(blocks)]
        self._bare = []
        self.num_free_blocks += len(blocks)
        if freed:
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
        hits = [block.block_id for block in blocks if block.block_hash is not None]
        self._removed.clear()
        self.hit_blocks += len(hits)
        if hits:
            self._tell(self.core.hit, hits)

    def entered(self, block: Block, key: bytes, depth: int) -> None:
        """A block has a hash now; `publish` says so to the policy."""
        blocks, keys, depths = self._entered
        blocks.append(block.block_id)
        keys.append(key)
        depths.append(depth)

    @property
    def entering(self) -> bool:
        """Whether blocks have entered since `publish`."""
        return bool(self._entered[0])

    def publish(self, use: Access = UNKNOWN) -> None:
        """The blocks that entered are all that this request computed."""
        if self.entering:
            self._tell(self.core.insert, *self.take_entered(), use)

    def take_entered(self) -> tuple[list[int], list[bytes], list[int]]:
        """Those blocks, their keys and depths; they are not gathered any more."""
        entered, self._entered = self._entered, ([], [], [])
        return entered

    def lost(self, block: Block) -> None:
        """A block has no hash any more."""
        self._tell(self.core.remove, [block.block_id])

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
        if self._entered[0]:
            self.core.insert(*self.take_entered())
        if self._removed:
            removed, self._removed = self._removed, []
            self.core.hit(removed)
        if self._bare:
            bare, self._bare = self._bare, []
            self.core.free([block.block_id for block in reversed(bare)])

    def _fail(self, error: Exception) -> Any:
        """Ends this queue; returns vLLM's own, which the pool has from now on."""
        self._live = False
        return self._give_up(error)
