"""vLLM's scheduler over kvframe's manager, for ``--scheduler-cls``."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from kvframe_vllm import choice, install
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
        Whether it has it now. If not, vLLM's log says why in one sentence, and the policy alone is
        put into vLLM's pool (`kvframe_vllm.install`); where that cannot be, vLLM goes on as it is.
    """
    try:
        text = choice.asked(scheduler.vllm_config)
        if text == choice.STOCK:
            return False
        if reason := unfit(scheduler):
            _told(reason)
            install.install(scheduler.kv_cache_manager.block_pool, text)
            return False
        manager = WholeManager(scheduler, text)
        passed_over = choice.ignored(choice.resolved(text), whole=True)
    except Exception as error:
        _told(f"{type(error).__name__}: {error}")
        return False
    scheduler.kv_cache_manager = manager
    told = manager.policy, manager.block_pool.num_gpu_blocks
    logger.info("kvframe manages the GPU prefix cache by %s, %d blocks (experimental)", *told)
    if passed_over:
        logger.warning("kvframe: %s", passed_over)
    return True


def _told(reason: str) -> None:
    logger.warning("kvframe does not manage the GPU prefix cache, vLLM does: %s", reason)
