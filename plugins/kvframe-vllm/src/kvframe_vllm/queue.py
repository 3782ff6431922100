"""vLLM's free queue, in the order of a kvframe policy.

vLLM calls what `FreeKVCacheBlockQueue` has; the pool (`kvframe_vllm.pool`) notifies besides which
blocks were found, became findable, or are not any more. Blocks go to the core as vLLM's own objects
and come back as these, so that nothing here is done block by block. What every request calls goes
to the compiled queue at once, and nothing stands between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kvframe.block_queue import BlockQueue
from kvframe.config import Resolved
from kvframe.flat import KnownRow
from kvframe_vllm import choice

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
        policy: Its policy, as kvframe's command line names it.
        core: kvframe's queue.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        resolved: Resolved,
        block_size: int,
        give_up: Callable[[Exception], Any],
    ) -> None:
        self.policy = choice.named(resolved)
        self.core = BlockQueue(resolved, len(blocks), block_size=block_size, handles=blocks)
        self.num_free_blocks = 0
        self._give_up = give_up
        self._empty: list[Block] = []
        self._bind(self.core.native)

    def _bind(self, native: Any) -> None:
        """Call that compiled queue from now on; none if None."""
        self._live = native is not None
        self._take, self._hit, self._insert, self._free, self._remove = (
            getattr(native, name, _nothing) for name in ("take", "hit", "insert", "free", "remove")
        )

    # --- what vLLM calls --------------------------------------------------------------------------

    def popleft(self) -> Block:
        """Take the first block."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[Block]:
        """Take the first ``n`` blocks."""
        assert self.num_free_blocks >= n
        try:
            taken: list[Block] = self._take(n)
        except Exception as error:
            # Nothing was taken: vLLM's own queue has all of them.
            own: list[Block] = self._fail(error).popleft_n(n)
            return own
        self.num_free_blocks -= n
        return taken

    def remove(self, block: Block) -> None:
        """A request found this block; the pool says which others it found, in `found`."""
        self.num_free_blocks -= 1

    def prepend_n(self, blocks: list[Block]) -> None:
        """Blocks that hold nothing lost their last owner, the first of them to be taken next.

        vLLM calls `append_n` next, with those of the same request that hold something.
        """
        self._empty = blocks
        self.num_free_blocks += len(blocks)

    def append_n(self, blocks: list[Block]) -> None:
        """Blocks that hold something lost their last owner: a prefix from its end.

        They have a hash, or are still read until they are taken (vLLM's ``unpin_blocks``).
        """
        self.num_free_blocks += len(blocks)
        empty, self._empty = self._empty, []
        if blocks or empty:
            try:
                self._free(blocks[::-1], empty[::-1])
            except Exception as error:
                self._fail(error)

    def append(self, block: Block) -> None:
        """One block lost its last owner."""
        self.append_n([block])

    def get_all_free_blocks(self) -> list[Block]:
        """The free blocks, the next first."""
        return self.core.order()

    def iter_blocks_after(self, cursor: Block | None) -> Iterator[Block]:
        """Free blocks in the order in which they would be taken now, from behind ``cursor`` on."""
        order = self.get_all_free_blocks()
        at = 0 if cursor is None else order.index(cursor) + 1 if cursor in order else len(order)
        return iter(order[at:])

    # --- what the pool notifies -------------------------------------------------------------------

    def found(self, blocks: Sequence[Block]) -> None:
        """A request found these, and owns them now; `remove` was called for those without owner."""
        try:
            self._hit(blocks, 0)
        except Exception as error:
            self._fail(error)

    def entered(
        self,
        blocks: Sequence[Block],
        depths: Sequence[int] | int,
        use: KnownRow | int = 0,
        mask: Sequence[bool] | None = None,
    ) -> None:
        """Blocks of a request have a new hash, each at its place, or in a row from the first on;
        those without one are passed over, and those that the mask leaves out.
        """
        keys = [block._block_hash for block in blocks]
        if mask is not None:
            keys = [key if kept else None for key, kept in zip(keys, mask, strict=True)]
        try:
            self._insert(blocks, keys, depths, use)
        except Exception as error:
            self._fail(error)

    def lost(self, blocks: Iterable[Block]) -> None:
        """Blocks have no hash any more."""
        try:
            self._remove(list(blocks))
        except Exception as error:
            self._fail(error)

    def reset(self) -> None:
        """No block has a hash any more; the policy begins anew. Free blocks keep their order."""
        if self._live:
            try:
                order = self.core.order()
                self.core = self.core.renewed()
                self.core.free([], order[::-1])
                self._bind(self.core.native)
            except Exception as error:
                self._fail(error)

    # --- another policy, or none ------------------------------------------------------------------

    def switch(self, resolved: Resolved) -> None:
        """Have another policy rank the blocks from now on.

        Raises:
            KVFrameError: It cannot be had; all is as it was.
        """
        self.core.switch(resolved)
        self.policy = choice.named(resolved)
        self._bind(self.core.native)

    def _fail(self, error: Exception) -> Any:
        """Ends this queue; returns vLLM's own, which the pool has from now on. By the time of each
        call the pool's ``ref_cnt`` say the same as the call.
        """
        self._bind(None)
        return self._give_up(error)


def _nothing(*_: Any) -> Any:
    """What a queue that has ended does."""
