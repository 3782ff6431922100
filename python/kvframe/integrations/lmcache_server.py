r"""kvframe's policies in LMCache's MP server, by its own argument for modules from outside.

    lmcache server ... --eviction-policy LRU \
        --server-module '{"module_path": "kvframe.integrations.lmcache_server",
                          "config": {"policy": "arc"}}'

LMCache calls `build_server_modules` once its tiers are built and before it serves; the policy takes
the place of the one that ``--eviction-policy`` named, in host memory (L1) and in every L2 adapter
that evicts. ``config`` has ``policy`` and ``options``; without a policy, kvframe.toml and the
environment rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvframe.config import Resolved
from kvframe.errors import ConfigError
from kvframe.flat import resolve
from kvframe.integrations.lmcache import SUPPORTED, KvframeEvictionPolicy
from kvframe.integrations.peers import seam

logger = seam("lmcache.logging", "lmcache", SUPPORTED).init_logger("lmcache.kvframe")

KEYS = ("policy", "options")


def build_server_modules(context: Any) -> tuple[()]:
    """Put a policy into the server that is being built. It gets no module.

    Args:
        context: LMCache's ``ExtServerModuleBuildContext``.

    Raises:
        ConfigError: The configuration has a key that is not known.
        PluginError, PolicyError: The policy cannot be found, or not be made.
    """
    resolved = _resolved(context.config)
    for holder, name in _places(context.server_context.storage_manager):
        policy = KvframeEvictionPolicy(resolved)
        setattr(holder, name, policy)
        listener = getattr(holder, name.replace("eviction_policy", "listener"))
        listener._policy = policy
    logger.info("kvframe's policy %s evicts in this server", resolved.eviction.name)
    return ()


def _resolved(config: dict[str, Any]) -> Resolved:
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"server module config: {key!r} is not one of {', '.join(KEYS)}")
    if config.get("policy") is None:
        return Resolved.load()
    return resolve(config["policy"], config.get("options"))


def _places(manager: Any) -> Iterator[tuple[Any, str]]:
    """What holds a policy in a storage manager, and the attribute."""
    for controller in manager._eviction_controllers:
        yield controller, "_eviction_policy"
    for state in manager._l2_eviction_controller._adapter_states:
        yield state, "eviction_policy"
