"""What vLLM reads of a scheduler's ``block_pool``, and what it gives back there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvframe_vllm.manager.requests import Held
    from kvframe_vllm.manager.whole import WholeManager


class Pool:
    """The blocks of kvframe's manager, where vLLM has its `BlockPool`.

    Args:
        manager: Whose it is.

    Attributes:
        blocks: vLLM's objects, by id: they say no more than their id here.
        deferred: What ended while a step may still write there, by the last block of its last
            table, which no other table ends with.
    """

    enable_caching = True

    def __init__(self, manager: WholeManager) -> None:
        self._manager = manager
        self._stock = stock = manager.stock.block_pool
        self.blocks, self.null_block = stock.blocks, stock.null_block
        self.num_gpu_blocks, self.hash_block_size = stock.num_gpu_blocks, stock.hash_block_size
        self._available = manager.kv.blocks.available
        self.deferred: dict[int, Held] = {}

    def get_num_free_blocks(self) -> int:
        """Blocks without an owner."""
        return self._available()

    def get_usage(self) -> float:
        """The share of blocks with an owner."""
        return 1.0 - self._available() / (self.num_gpu_blocks - 1 or 1)

    def take_events(self) -> list[Any]:
        """KV events since the last call."""
        events: list[Any] = self._stock.take_events()
        return events

    def defer(self, held: Held) -> list[Any]:
        """What ends, as blocks that `free_blocks` gets later."""
        self.deferred[held.tables[-1][-1]] = held
        # Where blocks left a window there is the null block, which has no owner.
        return [self.blocks[block] for ids in held.tables for block in ids if block]

    def free_blocks(self, ordered_blocks: Iterable[Any]) -> None:
        """The blocks that `defer` gave out, from their end."""
        blocks = list(ordered_blocks)
        if blocks:
            self._manager.let_go(self.deferred.pop(blocks[0].block_id), blocks)
