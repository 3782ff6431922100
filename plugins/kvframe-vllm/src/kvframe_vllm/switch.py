"""Another policy in a pool that serves: one call, and one more takes it back.

Blocks, hashes and owners stay as they are. A policy that follows another is told of every cached
block, in its order, and how often it was used; so begin under ``lru``, which is vLLM's own order,
where you may want to switch later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvframe_vllm import choice
from kvframe_vllm.install import put_in, take_out, unfit
from kvframe_vllm.log import logger
from kvframe_vllm.pool import ruled


def switch(pool: Any, text: str, uses: Sequence[int] | None = None) -> bool:
    """Have the policy that ``text`` names rule ``pool`` from now on. Never raises.

    Call it where vLLM calls its pool: in the engine's core, between two steps.

    Args:
        pool: A scheduler's ``kv_cache_manager.block_pool``, under any policy or none.
        text: As `kvframe_vllm.choice` takes it; ``stock`` gives the pool back to vLLM.
        uses: How often each block was used, by id, where another has counted (`kvframe shadow`):
            vLLM's own queue does not.

    Returns:
        Whether that is so; if not, all is as it was, and vLLM's log says why.
    """
    try:
        if reason := unfit(pool):
            raise ValueError(reason)
        _switch(pool, text, uses)
    except Exception as error:
        logger.warning("kvframe does not switch to %s: %s: %s", text, type(error).__name__, error)
        return False
    logger.info("kvframe's policy %s rules the GPU prefix cache from now on", text)
    return True


def _switch(pool: Any, text: str, uses: Sequence[int] | None) -> None:
    if text == choice.STOCK:
        if ruled(pool):
            take_out(pool)
    elif ruled(pool):
        pool.free_block_queue.switch(choice.resolved(text))
    else:
        put_in(pool, choice.resolved(text), uses)
