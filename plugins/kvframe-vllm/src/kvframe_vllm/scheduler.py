"""vLLM's scheduler with a policy in its pool, for ``--scheduler-cls``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from kvframe.files import CONFIG_BYTES, read_regular
from kvframe_vllm import choice
from kvframe_vllm.log import logger
from kvframe_vllm.plugin import put_into
from kvframe_vllm.switch import switch


class KvframeScheduler(AsyncScheduler):  # type: ignore[misc]
    """vLLM's own scheduler; ``additional_config["kvframe"]`` names the policy of its pool.

    Without it, ``KVFRAME_VLLM_POLICY`` does, or else kvframe's own configuration.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        put_into(self, only_if_asked=False)


class SwitchableScheduler(KvframeScheduler):
    """The same, which goes to another policy whenever a file names one.

    ``KVFRAME_VLLM_SWITCH`` is the file. Before a step its time of change is looked at; if that is
    another one, the file's text (`kvframe_vllm.choice`, or ``stock``) rules from that step on. A
    file that is not there, or cannot be read, changes nothing.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        asked = os.environ.get(choice.SWITCH)
        self._asked = Path(asked) if asked else None
        self._seen: int | None = None
        if self._asked is None:
            logger.warning("%s is not set: the policy stays as it is", choice.SWITCH)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        if self._asked is not None:
            self._follow(self._asked)
        return super().schedule(*args, **kwargs)

    def _follow(self, file: Path) -> None:
        try:
            now = file.stat().st_mtime_ns
        except OSError:
            return
        if now == self._seen:
            return
        self._seen = now
        try:
            text = read_regular(file, CONFIG_BYTES).decode().strip()
        except (OSError, ValueError) as error:
            logger.warning("kvframe does not switch: %s: %s", file, error)
            return
        switch(self.kv_cache_manager.block_pool, text)
