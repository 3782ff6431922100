"""The entry point: SGLang calls `register` in each process that has a scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvframe_sglang import choice, releases
from kvframe_sglang.log import logger

if TYPE_CHECKING:
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams

BACKEND = "kvframe"
"""The tree core's name among SGLang's."""

STOCK = "rust"
"""SGLang's own, which falls back to its Python tree where it must."""


def register() -> None:
    """Have SGLang know kvframe's policies by name, and ask kvframe which tree a cache gets.

    Caches whose policy is not kvframe's get SGLang's tree as before. With a release that is not
    known nothing changes.
    """
    try:
        reason = releases.TREE.unknown
        if reason is None:
            _enter()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        _say(reason)


def _enter() -> None:
    from sglang.srt.arg_groups import choices
    from sglang.srt.environ import envs
    from sglang.srt.mem_cache import utils
    from sglang.srt.mem_cache.unified_cache import tree_core_registry

    if BACKEND in tree_core_registry.registered_tree_core_backends():
        return
    names = choice.names()
    choices.add_radix_eviction_policy_choices(names)
    for name in names:
        # Where SGLang builds another cache than the one that asks for a tree core.
        utils._EVICTION_POLICY_FACTORIES[name] = _lru
    tree_core_registry.register_tree_core_backend(BACKEND, tree_core)
    # An environment variable would reach processes in which nobody calls this.
    envs.SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND.default = BACKEND


def tree_core(params: CacheInitParams, components: Any) -> Any:
    """The tree of a cache: kvframe's if a policy of kvframe's is asked for and can serve it.

    Args:
        params: What SGLang builds the cache from.
        components: Its drivers, by kind.
    """
    from dataclasses import replace

    from sglang.srt.mem_cache.unified_cache.tree_core_registry import create_tree_core

    policy = params.eviction_policy
    try:
        resolved = choice.asked(policy, params.eviction_policy_config)
        if resolved is not None:
            from kvframe_sglang.fit import unfit

            reason = unfit(params)
            if reason is None:
                from kvframe_sglang.core import KvframeTreeCore

                core = KvframeTreeCore(params, resolved)
                logger.info(
                    "kvframe's policy %s rules the prefix cache, pages of %d tokens",
                    *(resolved.eviction.name, params.page_size),
                )
                return core
            _say(reason)
    except Exception as error:
        _say(f"{type(error).__name__}: {error}")
    if choice.is_ours(policy):
        params = replace(params, eviction_policy="lru", eviction_policy_config=None)
    return create_tree_core(STOCK, params, components)


def _lru(**_: Any) -> Any:
    from sglang.srt.mem_cache.evict_policy import LRUStrategy

    _say("this model's cache is none that asks for a tree core")
    return LRUStrategy()


def _say(reason: str) -> None:
    logger.warning("kvframe does not rule the prefix cache, SGLang's own order does: %s", reason)
