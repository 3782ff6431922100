"""vLLM's scheduler over kvframe's manager, for ``--scheduler-cls``."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from kvframe_vllm import choice
from kvframe_vllm.install import STOCK
from kvframe_vllm.log import logger
from kvframe_vllm.manager.fit import unfit
from kvframe_vllm.manager.whole import WholeManager


class KvframeManagerScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's own scheduler, whose ``kv_cache_manager`` is kvframe's where that serves the model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        put_in(self)


def put_in(scheduler: Any) -> bool:
    """Give a scheduler that is complete, and has no request yet, kvframe's manager.

    Returns:
        Whether it has it now. If not, vLLM goes on as it is, and its log says why in one sentence.
    """
    try:
        text = choice.asked(scheduler.vllm_config)
        if text == STOCK:
            return False
        if reason := unfit(scheduler):
            return _stock(reason)
        manager = WholeManager(scheduler, text)
    except Exception as error:
        return _stock(f"{type(error).__name__}: {error}")
    scheduler.kv_cache_manager = manager
    told = manager.policy, manager.block_pool.num_gpu_blocks
    logger.info("kvframe manages the GPU prefix cache by %s, %d blocks (experimental)", *told)
    return True


def _stock(reason: str) -> bool:
    logger.warning("kvframe does not manage the GPU prefix cache, vLLM does: %s", reason)
    return False
