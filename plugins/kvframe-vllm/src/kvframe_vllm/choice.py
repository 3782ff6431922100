"""Which policy the configuration asks for.

One text, the same everywhere: a policy as kvframe's command line names it (``lfu``,
``s3-fifo:small_percent=20``), or the path of a ``.toml`` file, of which ``[eviction]`` is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kvframe.config import Resolved
from kvframe.errors import ConfigError, PluginError

VARIABLE = "KVFRAME_VLLM_POLICY"
"""The environment variable that holds the text."""

KEY = "kvframe"
"""The key of ``additional_config`` that does."""


def asked(vllm_config: Any) -> str | None:
    """The text that vLLM's ``additional_config`` or the environment holds; None if neither.

    Raises:
        ConfigError: It is no text.
    """
    additional = getattr(vllm_config, "additional_config", None)
    found = additional.get(KEY) if isinstance(additional, Mapping) else None
    return text_of(found, f"additional_config[{KEY!r}]") or os.environ.get(VARIABLE) or None


def text_of(found: object, where: str) -> str | None:
    """``found`` as a text.

    Raises:
        ConfigError: It is neither a text nor None.
    """
    if found is None or isinstance(found, str):
        return found
    raise ConfigError(f"{where} = {found!r}: must be a policy's name, or the path of a .toml file")


def named(resolved: Resolved) -> str:
    """The policy of a configuration, as kvframe's command line names it."""
    eviction = resolved.config.eviction
    options = ",".join(f"{key}={value}" for key, value in (eviction.options or {}).items())
    return f"{eviction.policy}:{options}" if options else str(eviction.policy)


def resolved(text: str | None, **sections: Any) -> Resolved:
    """The configuration that the text stands for; None is what kvframe finds by itself.

    Args:
        text: A policy, or a file.
        **sections: What else the engine says, as `Resolved.load` takes it.

    Raises:
        ConfigError, PluginError: It stands for none.
    """
    if text is None:
        return Resolved.load(**sections)
    if text.endswith(".toml"):
        return Resolved.load(text, **sections)
    try:
        return Resolved.load(os.devnull, env={}, eviction={"policy": text}, **sections)
    except PluginError:
        name = text.partition(":")[0]
        if "/" in name or os.path.isfile(text):
            raise ConfigError(f"{text}: a file must be named .toml") from None
        raise
