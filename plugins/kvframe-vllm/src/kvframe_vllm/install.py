"""A policy in a live pool of vLLM, and out of it again.

The blocks, their hashes and their owners stay as they are. `install` never raises: where a policy
cannot be had, vLLM goes on as it is, and its log says why in one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue

from kvframe.config import Resolved
from kvframe_vllm import choice, releases
from kvframe_vllm.log import logger
from kvframe_vllm.pool import be_silent, notify
from kvframe_vllm.queue import PolicyQueue


def install(pool: Any, text: str | None) -> bool:
    """Put the policy that ``text`` names into ``pool``, instead of vLLM's order.

    Args:
        pool: A scheduler's ``kv_cache_manager.block_pool``.
        text: As `kvframe_vllm.choice` takes it; ``stock`` leaves vLLM's order.

    Returns:
        Whether it rules the pool now.
    """
    if text == choice.STOCK:
        return False
    try:
        if reason := unfit(pool):
            return _stock(reason)
        resolved = choice.resolved(text)
        put_in(pool, resolved)
    except Exception as error:
        return _stock(f"{type(error).__name__}: {error}")
    logger.info(
        "kvframe's policy %s rules the GPU prefix cache, %d blocks",
        resolved.eviction.name,
        pool.num_gpu_blocks,
    )
    if passed_over := choice.ignored(resolved):
        logger.warning("kvframe: %s", passed_over)
    return True


def unfit(pool: Any) -> str | None:
    """Why this pool cannot be ruled by a policy; None if it can."""
    if reason := releases.POOL.unknown:
        return reason
    if type(pool) is not BlockPool:
        return f"the pool is a {type(pool).__qualname__}, not vLLM's BlockPool"
    if not pool.enable_caching:
        return "prefix caching is off"
    return None


def put_in(pool: Any, resolved: Resolved, uses: Sequence[int] | None = None) -> None:
    """Give ``pool`` a queue of that policy: its free blocks enter it in the order they have.

    Args:
        pool: The pool, under vLLM's own order.
        resolved: Whose ``[eviction]`` names the policy.
        uses: How often each block was used, by id; once if None.

    Raises:
        KVFrameError: The policy cannot be had. The pool is as it was.
    """
    free = pool.free_block_queue.get_all_free_blocks()
    queue = PolicyQueue(
        pool.blocks, resolved, pool.hash_block_size, lambda error: give_up(pool, error)
    )
    size, owned = pool.hash_block_size, [block for block in pool.blocks if block.ref_cnt]
    cached = [block for block in free + owned if block.block_hash is not None]
    tokens = [block.block_hash_num_tokens or 1 for block in cached]
    keys = [block.block_hash for block in cached]
    queue.core.insert(cached, keys, [(each - 1) // size for each in tokens])
    again, counted = cached, 1
    while uses is not None and again:
        counted += 1
        again = [block for block in again if uses[block.block_id] >= counted]
        queue.core.hit(again)
    # Those behind one with a hash that have none are still read, or lost it in their place.
    first = next((at for at, block in enumerate(free) if block.block_hash is not None), len(free))
    queue.core.free(free[first:][::-1], free[:first][::-1])
    queue.num_free_blocks = len(free)
    for block in free:
        block.prev_free_block = block.next_free_block = None
    notify(pool, queue)


def take_out(pool: Any) -> None:
    """Give ``pool`` vLLM's own queue again, of the free blocks in the order they have."""
    _own(pool, pool.free_block_queue.get_all_free_blocks())


def give_up(pool: Any, error: Exception) -> Any:
    """The same where the policy's queue has failed: the order is that of the ids."""
    policy = pool.free_block_queue.core.policy
    logger.error(
        "kvframe's policy %s failed, and vLLM's LRU goes on in its place: %s: %s",
        *(policy, type(error).__name__, error),
    )
    free = [block for block in pool.blocks if not block.ref_cnt and not block.is_null]
    free.sort(key=lambda block: block.block_hash is not None)
    return _own(pool, free)


def _own(pool: Any, free: list[Any]) -> Any:
    be_silent(pool, FreeKVCacheBlockQueue(free))
    return pool.free_block_queue


def _stock(reason: str) -> bool:
    logger.warning("kvframe does not rule the GPU prefix cache, vLLM's LRU does: %s", reason)
    return False
