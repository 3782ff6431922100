"""kvframe's names in vLLM's registries, so that a configuration needs no module path.

``eviction_policy`` takes ``kvframe`` (what kvframe.toml says) and ``kvframe:NAME`` for every
installed policy that needs no future, ``spec_name`` takes ``KvframeOffloadingSpec``, and a
secondary tier's ``type`` takes ``kvframe``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvframe.errors import PluginError
from kvframe.registry import Registry
from kvframe_vllm.log import logger

POLICIES = "kvframe.integrations.vllm"
SPEC = "KvframeOffloadingSpec"
TIER = "kvframe"


def register() -> None:
    """Enter every name that vLLM does not know yet. Never raises: the log says what failed."""
    try:
        from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory
        from vllm.v1.kv_offload.factory import OffloadingSpecFactory
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

        policies = CachePolicyFactory.register_cache_policy
        _enter(policies, "kvframe", POLICIES, "KvframeCachePolicy")
        registry = Registry()
        for row in registry.list():
            if row.kind == "eviction" and _serves(registry, row.name):
                _enter(policies, f"kvframe:{row.name}", POLICIES, f"kvframe:{row.name}")
        _enter(OffloadingSpecFactory.register_spec, SPEC, "kvframe_vllm.offload.spec", SPEC)
        tiers = SecondaryTierFactory.register_tier
        _enter(tiers, TIER, "kvframe_vllm.offload.tier", "KvframeTier")
    except Exception as error:
        told = type(error).__name__, error
        logger.warning("kvframe's names are not known to vLLM's CPU tier: %s: %s", *told)


def _serves(registry: Registry, policy: str) -> bool:
    """Whether an engine can run it: not if it needs to know the future."""
    try:
        return not registry.eviction(policy).descriptor.replay_only
    except PluginError:
        # Whoever names it is told what is wrong with it.
        return True


def _enter(into: Callable[[str, str, str], Any], name: str, module: str, what: str) -> None:
    try:
        into(name, module, what)
    except ValueError:
        # vLLM calls plugins more than once.
        return
