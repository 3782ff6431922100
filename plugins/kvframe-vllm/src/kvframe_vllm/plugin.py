"""The entry point: vLLM calls `register` in each of its processes, more than once in some."""

from __future__ import annotations

import functools
import os
from typing import Any

from kvframe_vllm import choice
from kvframe_vllm.log import logger
from kvframe_vllm.offload import names

_DONE = "_kvframe_ruled"


def register() -> None:
    """Have every scheduler of this process rule its pool by the policy of ``KVFRAME_VLLM_POLICY``.

    Without that variable vLLM's pool is left as it is. In any case vLLM's CPU tier knows kvframe's
    policies, spec and stores by name.
    """
    names.register()
    if not os.environ.get(choice.VARIABLE):
        return
    from vllm.v1.core.sched.scheduler import Scheduler

    if getattr(Scheduler.__init__, _DONE, False):
        return
    stock = Scheduler.__init__

    @functools.wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        put_into(self, only_if_asked=True)

    setattr(init, _DONE, True)
    Scheduler.__init__ = init


def put_into(scheduler: Any, *, only_if_asked: bool) -> bool:
    """Rule the pool of a scheduler that is complete; whether a policy does now.

    Args:
        scheduler: vLLM's.
        only_if_asked: Leave vLLM as it is if no policy is named.
    """
    try:
        from kvframe_vllm.install import install
        from kvframe_vllm.pool import ruled

        pool = scheduler.kv_cache_manager.block_pool
        if ruled(pool):
            return True
        text = choice.asked(scheduler.vllm_config)
        if text is None and only_if_asked:
            return False
        return install(pool, text)
    except Exception as error:
        logger.warning(
            "kvframe does not rule the GPU prefix cache, vLLM's LRU does: %s: %s",
            *(type(error).__name__, error),
        )
        return False
