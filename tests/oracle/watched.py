"""Which methods of a manager a walk has called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvframe import KVCacheManager

ELSEWHERE = {
    "from_toml": "tests/config: it is how a manager is built",
    "options": "tests/manager/test_echo.py: every key of the configuration",
    "reusable_unit": "tests/manager/test_prefixes.py",
    "dump": "tests/radix: the tree as text",
    "hit_rates": "tests/observe",
    "misses": "tests/observe",
    "miss": "tests/observe",
    "residency": "tests/observe",
    "take_log": "tests/observe: a walk of its own, rebuilt and driven again from its log",
    "snapshot": "tests/observe",
    "explain_sequence": "tests/observe",
    "explain_block": "tests/observe",
    "pins": "tests/retention",
    "unpin_all": "tests/retention",
    "hint": "tests/retention",
    "block_priority": "tests/retention",
    "reset_peak": "tests/observe",
    "touch": "tests/retention",
    "preempt_to": "tests/retention",
    "prefix_stats": "tests/manager/test_prefix_policies.py",
}
"""Public methods that the walk does not call, and who does."""


class Watched:
    """A manager that notes the names of what is called."""

    def __init__(self, manager: KVCacheManager, called: set[str]) -> None:
        self._manager = manager
        self._called = called

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self._called.add(name)
        found: Callable[..., Any] = getattr(self._manager, name)
        return found


def uncalled(called: set[str]) -> set[str]:
    """Public methods that are neither in ``called`` nor tested elsewhere."""
    public = {name for name in dir(KVCacheManager) if not name.startswith("_")}
    return public - called - ELSEWHERE.keys()
