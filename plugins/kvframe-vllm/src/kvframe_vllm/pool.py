"""vLLM's `BlockPool`, which notifies its free queue of what a policy goes by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vllm.v1.core.block_pool import BlockPool

from kvframe.flat import UNKNOWN, Access
from kvframe.integrations.peers import use_of
from kvframe_vllm.queue import Block, PolicyQueue


def use_of_request(request: Any) -> Access:
    """What vLLM knows of a request, and what its client says of it in ``kv_transfer_params``.

    vLLM's lesser ``priority`` is served first; kvframe's greater one is more important. Clients
    send anything: what cannot be read is left out, and never raises.
    """
    try:
        return _known(request)
    except Exception:
        return UNKNOWN


def _known(request: Any) -> Access:
    params, session = request.kv_transfer_params, getattr(request, "session_id", None)
    told = params.get("kvframe") if isinstance(params, dict) else None
    if told is None and session is None and not request.priority:
        return Access(tokens=request.num_tokens)
    known = {"tokens": request.num_tokens, "priority": -request.priority, "session": session or 0}
    return use_of(known | told if isinstance(told, dict) else known)


class PolicyBlockPool(BlockPool):  # type: ignore[misc]
    """A pool whose free queue is a `PolicyQueue`.

    A live pool becomes one (`kvframe_vllm.install`): it has no attribute of its own.
    """

    free_block_queue: PolicyQueue

    def get_new_blocks(self, num_blocks: int) -> list[Block]:
        queue = self.free_block_queue
        queue.taking = True
        try:
            taken: list[Block] = super().get_new_blocks(num_blocks)
            return taken
        finally:
            queue.taking = False

    def touch(self, blocks: Sequence[Block]) -> None:
        queue = self.free_block_queue
        super().touch(blocks)
        queue.found(blocks)

    def cache_full_blocks(self, request: Any, *args: Any, **kwargs: Any) -> None:
        queue = self.free_block_queue
        super().cache_full_blocks(request, *args, **kwargs)
        if queue.entering:
            queue.publish(use_of_request(request))

    def cache_partial_block(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        queue = self.free_block_queue
        found = super().cache_partial_block(request, *args, **kwargs)
        if queue.entering:
            queue.publish(use_of_request(request))
        return found

    def move_block_hashes(self, src_block: Block, dst_block: Block) -> None:
        queue = self.free_block_queue
        super().move_block_hashes(src_block, dst_block)
        queue.publish()

    def unpin_blocks(self, blocks: Iterable[Block], on_reuse: Callable[[Block], None]) -> None:
        queue = self.free_block_queue
        queue.deferring = True
        try:
            super().unpin_blocks(blocks, on_reuse)
        finally:
            queue.deferring = False

    def reset_prefix_cache(self) -> bool:
        queue = self.free_block_queue
        done: bool = super().reset_prefix_cache()
        if done:
            queue.reset()
        return done

    def _insert_block_hash(self, key: bytes, block: Block, num_tokens: int | None) -> None:
        fresh = block.block_hash is None
        super()._insert_block_hash(key, block, num_tokens)
        if fresh and block.block_hash is not None:
            depth = (num_tokens or 1) - 1
            self.free_block_queue.entered(block, key, depth // self.hash_block_size)

    def _remove_cached_block_hashes(self, block: Block) -> list[bytes]:
        queue, cached = self.free_block_queue, block.block_hash is not None
        removed: list[bytes] = super()._remove_cached_block_hashes(block)
        if cached and not queue.taking:
            queue.lost(block)
        return removed
