"""What must hold after every step, whatever the policy."""

from __future__ import annotations

from typing import Any

from kvframe_vllm.queue import PolicyQueue
from kvframe_vllm.replay.engine import Run


def check_step(made: Any, run: Run, output: Any, block_size: int) -> None:
    """The worker's tables are the manager's; no block holds two contents; the queue is whole.

    Raises:
        AssertionError: Something disagrees.
    """
    check_tables(made, run, output, block_size)
    check_pool(made.kv_cache_manager.block_pool)


def check_tables(made: Any, run: Run, output: Any, block_size: int) -> None:
    """The first two of these, for any manager.

    Raises:
        AssertionError: Something disagrees.
    """
    contents: dict[int, tuple[Any, ...]] = {}
    for name in output.num_scheduled_tokens:
        request = made.requests[name]
        tables = made.kv_cache_manager.get_block_ids(name)
        for table, told in zip(tables, run.tables[name], strict=True):
            # A block behind a window has become the null block, which the worker is not told.
            pairs = zip(table, told, strict=True)
            assert all(block in (0, known) for block, known in pairs), f"request {name}"
        keys = request.block_hashes[: request.num_computed_tokens // block_size]
        for group, table in enumerate(tables):
            for block, key in zip(table, keys, strict=False):
                held = contents.setdefault(block, (group, key)) if block else (group, key)
                assert held == (group, key), f"block {block} holds two contents"


def check_pool(pool: Any) -> None:
    """The queue has exactly the blocks without an owner, and ranks those that have a hash.

    Raises:
        AssertionError: Something disagrees.
    """
    unowned = {block.block_id for block in pool.blocks if not block.ref_cnt and not block.is_null}
    queue = pool.free_block_queue
    listed = [block.block_id for block in queue.get_all_free_blocks()]
    assert len(listed) == len(set(listed)) == queue.num_free_blocks
    assert set(listed) == unowned
    if isinstance(queue, PolicyQueue):
        queue.core.check_integrity()
        assert queue.core.available == len(unowned)
        # Blocks that vLLM unpinned are read until they are taken.
        read = pool._reuse_watchers
        kept = [pool.blocks[at].block_hash is not None or at in read for at in listed]
        assert kept == sorted(kept), "a block that holds nothing comes after one that does"
