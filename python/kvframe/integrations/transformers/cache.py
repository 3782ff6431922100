"""The engine's cache tensors and index arithmetic over kvframe's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.cache_manager import BlockManager

from kvframe.config import Resolved
from kvframe.errors import ConfigError
from kvframe.integrations.transformers.below import Below
from kvframe.integrations.transformers.sequences import Sequences
from kvframe.manager import KVCacheManager
from kvframe.tiers import SwapCost

Sized = Callable[[int, int, dict[str, Any]], Resolved]
"""The configuration for a block size, a number of blocks and a model."""


class Cache(PagedAttentionCache):  # type: ignore[misc]
    """The engine's cache, with a `KVCacheManager` in place of its block manager.

    transformers' own ``BlockManager`` hands out single blocks and sees no requests, so its callers
    are replaced too: this class and `Sequences` see both.

    Args:
        sized: The configuration.
        cost: As for `kvframe_blocks`.
        **arguments: For `PagedAttentionCache`.

    Raises:
        ConfigError: There are tiers, and the engine shares no prefixes or runs on several cards.
    """

    def __init__(self, sized: Sized, cost: SwapCost | None, **arguments: Any) -> None:
        super().__init__(**arguments)
        model = {
            "layers": len(self.key_cache),
            "kv_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "dtype": str(self.dtype).removeprefix("torch."),
        }
        self.kv = KVCacheManager(sized(self.block_size, self.num_blocks, model))
        self._block_manager = Blocks(self.kv)
        self._sequences: Sequences | None = None
        self.below: Below | None = None
        if self.use_prefix_sharing:
            if self.kv.inspect.resolved.tiers:
                if arguments["distributed_helper"].tp_size > 1:
                    raise ConfigError("[[tiers]]: not under tensor parallelism; leave them out")
                self.below = Below(self, cost)
            self._sequences = Sequences(self.kv, self.below)
            self.group_cache_managers = [self._sequences]
        elif self.kv.inspect.resolved.tiers:
            raise ConfigError(
                "[[tiers]]: transformers shares no prefixes here (a model with windows, or "
                "allow_block_sharing=False), so that nothing could be found below; leave them out"
            )
        for allocator in self.group_cache_managers:
            # If the model has windows, no prefix is found again, and forks copy the blocks that
            # they inherit.
            allocator.uses_block_sharing = self.use_prefix_sharing

    @property
    def sequences(self) -> Sequences | None:
        """The engine's requests as sequences of the manager; None where nothing is shared."""
        return self._sequences

    def allocate_blocks(self, n_blocks: int, request_id: str, allocated_blocks: int) -> int | None:
        if self._sequences is not None:  # it knows better than a count whether there is room
            return self._sequences.allocate_blocks(n_blocks, request_id, self._block_manager)
        blocks: int | None = super().allocate_blocks(n_blocks, request_id, allocated_blocks)
        return blocks

    def search_prefix_match(self, request_id: str, prompt_ids: list[int]) -> int:
        assert self._sequences is not None
        found = self._sequences.begin(request_id, prompt_ids)
        self._total_prefix_length += found
        return found

    def mark_shareable_blocks_as_complete(self, state: Any, num_complete_blocks: int) -> None:
        # Also at a request's last token, where the stock cache leaves its last full block behind.
        if self._sequences is not None and num_complete_blocks > 0:
            tokens = state.initial_tokens + state.generated_tokens
            self._sequences.commit(state.request_id, num_complete_blocks, tokens)

    def compute_max_num_forks(self, source_request_id: str) -> int:
        own = self.blocks_in_use(source_request_id)
        if self._sequences is not None:
            own -= self._sequences.running[source_request_id].committed // self.block_size
        return self.get_num_free_blocks() // own if own else 2**31

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        read_index: list[torch.Tensor],
        write_index: list[torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.below is not None and self.below.awaited:
            self.below.await_layer(self.layer_index_to_group_indices[layer_idx][1])
        found: tuple[torch.Tensor, torch.Tensor] = super().update(
            key_states, value_states, layer_idx, read_index, write_index
        )
        return found

    def blocks_of(self, tokens: int) -> int:
        """Blocks that the engine asks for before it computes a prompt of so many tokens."""
        size: int = self.block_size
        return (tokens + 1) // size + 1


class Blocks(BlockManager):  # type: ignore[misc]
    """The engine's block manager over kvframe's pool.

    It counts cached blocks as free. Blocks that the engine does not share are taken as loans.
    """

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv = kv
        self.block_size = kv.block_size
        self.num_blocks = kv.counts().total

    @property
    def num_free_blocks(self) -> int:
        counts = self.kv.counts()
        return counts.free + counts.cached

    def has_enough_free_blocks(self, n_blocks: int) -> bool:
        return n_blocks <= self.num_free_blocks

    def get_free_blocks(
        self, n_blocks: int, last_block_id: int | None, shareable: bool, group_id: int
    ) -> list[int] | None:
        if not self.has_enough_free_blocks(n_blocks):
            return None
        blocks = np.empty(n_blocks, np.int32)
        self.kv.blocks.take(out=blocks)
        return [int(block) for block in blocks]

    def free_blocks(self, blocks: list[int], shareable: bool) -> None:
        self.kv.blocks.free(np.array(blocks, np.int32))
