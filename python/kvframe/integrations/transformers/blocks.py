"""`kvframe_blocks`: within it, the engine makes kvframe's caches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from transformers.generation.continuous_batching import continuous_api

from kvframe.config import Resolved
from kvframe.errors import ConfigError
from kvframe.integrations.transformers.cache import Cache
from kvframe.integrations.transformers.processor import Processor
from kvframe.integrations.transformers.releases import check_release
from kvframe.manager import KVCacheManager
from kvframe.registry import Registry
from kvframe.tiers import SwapCost, Tiers

DTYPES = {"bfloat16", "float16", "float32"}
ANY_MODEL = {"layers": 1, "kv_heads": 1, "head_dim": 8, "dtype": "bfloat16"}


class Managers(list[KVCacheManager]):
    """The manager of each cache, in the order in which they were made.

    Attributes:
        tiers: What stands below each; None where the configuration has no ``[[tiers]]``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tiers: list[Tiers | None] = []


@contextmanager
def kvframe_blocks(
    path: str | os.PathLike[str] | None = None,
    *,
    registry: Registry | None = None,
    cost: SwapCost | None = None,
    **sections: Any,
) -> Iterator[Managers]:
    """Caches that continuous batching makes within this context take their blocks from kvframe.

    The engine sizes its cache itself, so ``cache.block_size``, ``cache.capacity`` and ``[model]``
    are taken from it, whatever the configuration says. The context is of the process, not of a
    thread: do not open it twice at a time. A cache goes on working after it; its tiers are closed
    with its engine.

    Args:
        path: As for `KVCacheManager.from_toml`.
        registry: As there.
        cost: What computing a token takes, against which loads from tiers and swaps are weighed.
            By default that is measured: until a prompt was computed, what tiers have is loaded.
        **sections: As there.

    Yields:
        The manager of each cache made so far, in a list that grows; its ``tiers`` are theirs.

    Raises:
        ConfigError: The configuration cannot hold, or does not suit the engine.
        PluginError: Its policy is not found, blocked or broken.
        ImportError: transformers is of another release than those that are known.
    """
    check_release()
    sized = partial(_sized, path, registry, sections)
    sized(256, 2**16, ANY_MODEL)  # what is wrong is said before the engine starts
    managers = Managers()
    stock = continuous_api.PagedAttentionCache, continuous_api.ContinuousBatchProcessor

    def make(**arguments: Any) -> Cache:
        cache = Cache(sized, cost, **arguments)
        managers.append(cache.kv)
        managers.tiers.append(cache.below.tiers if cache.below else None)
        return cache

    continuous_api.PagedAttentionCache = make
    continuous_api.ContinuousBatchProcessor = Processor
    try:
        yield managers
    finally:
        continuous_api.PagedAttentionCache, continuous_api.ContinuousBatchProcessor = stock


def _sized(
    path: str | os.PathLike[str] | None,
    registry: Registry | None,
    sections: dict[str, Any],
    block_size: int,
    blocks: int,
    model: dict[str, Any],
) -> Resolved:
    """The configuration, at the engine's size."""
    given = {**sections.get("cache", {}), "block_size": block_size, "capacity": blocks}
    sized: dict[str, Any] = {**sections, "cache": given}
    if model["dtype"] in DTYPES:
        sized["model"] = {**sections.get("model", {}), **model}
    resolved = Resolved.load(path, registry=registry, **sized)
    groups = [group.kind for group in resolved.config.groups]
    if groups != ["full"]:
        raise ConfigError(f"groups = {groups}: transformers shares one full group; leave it out")
    cache = resolved.config.cache
    if cache.null_block:
        raise ConfigError("cache.null_block = true: transformers keeps padding blocks of its own")
    for name in ("partial_hits", "remap_duplicates"):
        if getattr(cache, name):
            raise ConfigError(f"cache.{name} = true: transformers' block tables do not change")
    return resolved
