"""Which policy the configuration asks for.

One text, the same everywhere: a policy as kvframe's command line names it (``lfu``,
``s3-fifo:small_percent=20``), or the path of a ``.toml`` file, of which ``[eviction]`` is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kvframe.block_queue import BlockQueue
from kvframe.config import Resolved
from kvframe.config.origins import DEFAULT, KEYWORD
from kvframe.errors import ConfigError, PluginError

VARIABLE = "KVFRAME_VLLM_POLICY"
"""The environment variable that holds the text."""

KEY = "kvframe"
"""The key of ``additional_config`` that does."""

SWITCH = "KVFRAME_VLLM_SWITCH"
"""The environment variable that names the file which `SwitchableScheduler` follows."""

VARIABLES = (VARIABLE, SWITCH)

ROLE = "kv_producer"
"""The ``kv_role`` of the connectors: with another one vLLM frees blocks late under asynchronous
scheduling, which costs hits."""

STOCK = "stock"
"""The name of vLLM's own order."""

TIERS = "tiers"

COUNTS = ("eviction", "plugins")
"""What of a file counts where a policy is put into vLLM's pool."""

VLLMS = (
    *("cache.block_size", "cache.capacity", "cache.null_block", "cache.event_log"),
    *("groups", "model", "observe", TIERS),
)
"""What of a file does not count where the whole manager is kvframe's: vLLM says it."""


def asked(vllm_config: Any, environment: Mapping[str, str] = os.environ) -> str | None:
    """The text that vLLM's ``additional_config`` or the environment holds; None if neither.

    Args:
        vllm_config: vLLM's.
        environment: The process's own, or the one that it would have.

    Raises:
        ConfigError: It is no text.
    """
    additional = getattr(vllm_config, "additional_config", None)
    found = additional.get(KEY) if isinstance(additional, Mapping) else None
    return text_of(found, f"additional_config[{KEY!r}]") or environment.get(VARIABLE) or None


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


def listed(texts: str) -> list[str]:
    """The policies that a command is given by comma, all of which can be had; or ``stock``.

    Raises:
        ConfigError, PluginError: One cannot.
    """
    names = texts.split(",")
    for name in names:
        if name != STOCK:
            resolved(name)
    return names


def tried(resolved: Resolved) -> None:
    """Make the policy for a pool of one block.

    Raises:
        PluginError, PolicyError: It cannot be made, or needs to know the future.
    """
    BlockQueue[int](resolved, 1)


def ignored(resolved: Resolved, *, whole: bool = False) -> str | None:
    """What a file or variables say that does not count, in one line; None if all of it does.

    Args:
        resolved: What was read.
        whole: Whether kvframe's manager stands in the place of vLLM's.
    """
    said = [
        _section(path)
        for path, origin in resolved.provenance.items()
        if origin not in (DEFAULT, KEYWORD)
    ]
    names = [
        name for name in dict.fromkeys(said) if (name in VLLMS if whole else name not in COUNTS)
    ]
    if not names:
        return None
    others, why = [name for name in names if name not in VLLMS], []
    if any(name in VLLMS and name != TIERS for name in names):
        why.append("the pool, its size and the model are vLLM's")
    if TIERS in names:
        why.append("tiers go by vLLM's kv_offload (docs/how-to/vllm.md)")
    if others:
        why.append(f"{', '.join(others)}: under the whole manager alone")
    return f"{resolved.file or 'environment'}: ignored here: {', '.join(names)} ({'; '.join(why)})"


def _section(path: str) -> str:
    """The section that a key is in; of ``cache``, the key too."""
    section, *keys = path.split(".")
    return f"cache.{keys[0]}" if section == "cache" else section.partition("[")[0]
