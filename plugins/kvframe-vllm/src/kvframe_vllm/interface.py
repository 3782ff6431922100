"""An interface for eviction policies of vLLM's GPU pool, which vLLM could have as it stands here.

It imports nothing of vLLM and nothing of kvframe. `EvictionOrder` is what `BlockPool` would call
where it now holds a `FreeKVCacheBlockQueue`; ``docs/explanation/upstream-vllm.md`` says why each
call is there. `kvframe_vllm.queue.PolicyQueue` is an implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable


class Block(Protocol):
    """What an order reads of vLLM's ``KVCacheBlock``. It changes nothing of it.

    Attributes:
        block_id: Its place in the pool.
        ref_cnt: Its owners.
        is_null: Whether it is the null block, which is in no order.
    """

    block_id: int
    ref_cnt: int
    is_null: bool

    @property
    def block_hash(self) -> bytes | None:
        """What it holds, with its group; None if it can never be found."""


@runtime_checkable
class FreeBlocks(Protocol):
    """Blocks without an owner, in the order in which they are taken: what the pool calls today.

    Attributes:
        num_free_blocks: How many there are. Read at every allocation, so it is kept, not counted.
    """

    num_free_blocks: int

    def popleft_n(self, n: int) -> list[Any]:
        """Take the next ``n``. Their hashes are still set: the pool removes them right after, and
        emits the events, so that their order is the order here.
        """

    def remove(self, block: Any) -> None:
        """A block that a request found has an owner again. `found` follows with all of them."""

    def prepend_n(self, blocks: list[Any]) -> None:
        """Blocks that hold nothing lost their last owner; the first is to be taken next."""

    def append_n(self, blocks: list[Any]) -> None:
        """Blocks that hold something lost their last owner, a prefix from its end. Follows every
        `prepend_n`; the list may be empty.
        """

    def get_all_free_blocks(self) -> list[Any]:
        """All of them, the next first."""


@runtime_checkable
class EvictionOrder(FreeBlocks, Protocol):
    """The same with what a policy has to be told besides.

    Each notice is one call for all blocks of a request: a call a block would cost more than most
    policies. An order must never raise into the pool: one that cannot go on hands its free blocks
    to a `FreeKVCacheBlockQueue`.
    """

    def found(self, blocks: Sequence[Any]) -> None:
        """A request found these blocks, owned or not: the uses that LRU does not count."""

    def entered(
        self,
        blocks: Sequence[Any],
        depths: Sequence[int] | int,
        use: Any = None,
        mask: Sequence[bool] | None = None,
    ) -> None:
        """Blocks of a request became findable, each at its place in the prompt.

        Args:
            blocks: In the order of the prompt; null blocks and blocks without a hash are passed
                over.
            depths: The place of each, in blocks; or of the first, where the others follow it.
            use: What is known of the request.
            mask: Which of them are kept by groups that keep some only (sliding windows).
        """

    def lost(self, blocks: Iterable[Any]) -> None:
        """Blocks are not findable any more though nobody took them, with an owner or without: a
        connector reports them invalid, or their hash moved to a copy.
        """

    def reset(self) -> None:
        """No block is findable any more. Free blocks stay free."""
