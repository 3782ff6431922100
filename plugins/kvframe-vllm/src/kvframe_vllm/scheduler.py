"""vLLM's scheduler with a policy in its pool, for ``--scheduler-cls``."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from kvframe_vllm.plugin import put_into


class KvframeScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's own scheduler; ``additional_config["kvframe"]`` names the policy of its pool.

    Without it, ``KVFRAME_VLLM_POLICY`` does, or else kvframe's own configuration.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        put_into(self, only_if_asked=False)
