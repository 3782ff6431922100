"""What vLLM's `BlockPool` notifies its free queue of: all that a policy goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from vllm.v1.core.block_pool import BlockPool

from kvframe.flat import UNKNOWN, Access, KnownRow
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


def told_of(request: Any) -> KnownRow | int:
    """The same as the core takes it: most clients say nothing, and that costs next to nothing."""
    try:
        said = request.kv_transfer_params or request.priority
        said = said or getattr(request, "session_id", None)
        return use_of_request(request).row() if said else int(request.num_tokens)
    except Exception:
        return 0


def touch(pool: BlockPool, blocks: Sequence[Block]) -> None:
    """As vLLM does; the queue is told which blocks were found."""
    BlockPool.touch(pool, blocks)
    if blocks:
        pool.free_block_queue.found(blocks)


def cache_full_blocks(
    pool: BlockPool,
    request: Any,
    blocks: list[Block],
    num_cached_blocks: int,
    num_full_blocks: int,
    block_size: int,
    kv_cache_group_id: int,
    block_mask: list[bool] | None = None,
) -> None:
    """As vLLM does; the queue is told which blocks have a hash now."""
    first, end, size = num_cached_blocks, num_full_blocks, pool.hash_block_size
    BlockPool.cache_full_blocks(
        pool, request, blocks, first, end, block_size, kv_cache_group_id, block_mask
    )
    if first < end:
        # A block stands at its last hash.
        depths = first if block_size == size else _last_hashes(first, end, block_size // size)
        queue = pool.free_block_queue
        queue.entered(blocks[first:end], depths, told_of(request), block_mask)


def _last_hashes(first: int, end: int, hashes: int) -> range:
    """The last of the hashes of each of these blocks."""
    return range((first + 1) * hashes - 1, end * hashes, hashes)


def cache_partial_block(
    pool: BlockPool, request: Any, block: Block, num_tokens: int, *args: Any, **kwargs: Any
) -> Any:
    """As vLLM does; the queue is told if the block came to hold something else."""
    queue, was = pool.free_block_queue, block.block_hash
    key = BlockPool.cache_partial_block(pool, request, block, num_tokens, *args, **kwargs)
    # A further hash of a block is no new block.
    if block.block_hash is not None and block.block_hash != was:
        depth = num_tokens // pool.hash_block_size - 1
        queue.entered([block], depth, told_of(request))
    return key


def move_block_hashes(pool: BlockPool, src_block: Block, dst_block: Block) -> None:
    """As vLLM does; the queue is told of both blocks."""
    queue = pool.free_block_queue
    BlockPool.move_block_hashes(pool, src_block, dst_block)
    queue.lost([src_block])
    if dst_block.block_hash is not None:
        tokens = dst_block.block_hash_num_tokens or 1
        queue.entered([dst_block], (tokens - 1) // pool.hash_block_size)


def evict_blocks(pool: BlockPool, block_ids: set[int]) -> None:
    """As vLLM does; the queue is told of the blocks."""
    queue = pool.free_block_queue
    BlockPool.evict_blocks(pool, block_ids)
    queue.lost(pool.blocks[block] for block in block_ids)


def reset_prefix_cache(pool: BlockPool) -> bool:
    """As vLLM does; the queue begins anew."""
    queue = pool.free_block_queue
    done: bool = BlockPool.reset_prefix_cache(pool)
    if done:
        queue.reset()
    return done


NOTICES: tuple[Callable[..., Any], ...] = (
    touch,
    cache_full_blocks,
    cache_partial_block,
    move_block_hashes,
    evict_blocks,
    reset_prefix_cache,
)
"""vLLM's methods of these names, each followed by what it means for the queue.

They are set on a live pool, which stays a `BlockPool`: of another class its every attribute would
take Python longer to find, about 1 % of a scheduler's step. The methods that loop over blocks one
by one are not among them, as that would cost more than the policy.
"""


def notify(pool: BlockPool, queue: PolicyQueue) -> None:
    """Give ``pool`` that queue, and have it notify it."""
    pool.free_block_queue = queue
    for notice in NOTICES:
        setattr(pool, notice.__name__, MethodType(notice, pool))


def be_silent(pool: BlockPool, queue: Any) -> None:
    """Give ``pool`` a queue of vLLM's, which needs no notices."""
    pool.free_block_queue = queue
    for notice in NOTICES:
        delattr(pool, notice.__name__)


def ruled(pool: BlockPool) -> bool:
    """Whether a policy rules ``pool``."""
    return isinstance(pool.free_block_queue, PolicyQueue)
