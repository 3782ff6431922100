"""Which policy the command line and the environment ask for.

``--radix-eviction-policy kvframe:NAME`` is that policy; its options are those of
``--radix-eviction-policy-config``. ``kvframe`` alone is the policy of ``KVFRAME_SGLANG_POLICY``, or
else of kvframe.toml. The variable rules without the argument too, and holds a policy as kvframe's
command line names it (``lfu``, ``s3-fifo:small_percent=20``) or the path of a ``.toml`` file;
``stock`` leaves SGLang's order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kvframe.config import Resolved

VARIABLE = "KVFRAME_SGLANG_POLICY"
"""The environment variable."""

NAME = "kvframe"
"""The policy's name on SGLang's command line, or what stands before it."""

STOCK = "stock"
"""The name of SGLang's own order."""


def names() -> list[str]:
    """What the command line takes: each policy that kvframe finds."""
    from kvframe.registry import Registry

    return [NAME, *(f"{NAME}:{found.name}" for found in Registry().candidates("eviction"))]


def is_ours(policy: object) -> bool:
    """Whether it is one of these names."""
    return isinstance(policy, str) and (policy == NAME or policy.startswith(f"{NAME}:"))


def asked(policy: object, options: object = None) -> Resolved | None:
    """The configuration that SGLang's policy and the environment stand for; None for SGLang's own.

    A policy's failure stops no scheduler: ``on_error`` is ``fallback`` whatever the file says.

    Args:
        policy: ``--radix-eviction-policy``.
        options: ``--radix-eviction-policy-config``.

    Raises:
        ConfigError, PluginError: It stands for none.
    """
    told = os.environ.get(VARIABLE) or None
    named = policy.partition(":")[2] if is_ours(policy) and isinstance(policy, str) else ""
    if named:
        given = dict(options) if isinstance(options, Mapping) else {}
        return _resolved({"policy": named, "options": given}, os.devnull, env={})
    if told is None:
        return _resolved({}) if is_ours(policy) else None
    if told == STOCK:
        return None
    if told.endswith(".toml"):
        return _resolved({}, told)
    return _resolved({"policy": told}, os.devnull, env={})


def _resolved(eviction: dict[str, Any], *file: str, **sources: Any) -> Resolved:
    return Resolved.load(*file, eviction={**eviction, "on_error": "fallback"}, **sources)
