"""Which methods of a manager a walk has called."""

from __future__ import annotations

from typing import Any

from kvframe import KVCacheManager

ROOMS = ("pins", "blocks", "pressure", "stats", "log", "inspect")

ELSEWHERE = {
    "from_toml": "tests/config: it is how a manager is built",
    "blocks.available": "tests/manager/test_blocks.py",
    "blocks.holds": "tests/manager/test_blocks.py",
    "blocks.unowned": "tests/manager/test_blocks.py",
    "blocks.publish": "the walk, where a manager has one layer group",
    "blocks.prefix_of": "tests/manager/test_stores_below.py",
    "blocks.sequence_keys": "tests/manager/test_stores_below.py",
    "inspect.is_current": "tests/manager/test_stores_below.py",
    "inspect.origin": "tests/manager/test_stores_below.py",
    "inspect.stored_request": "tests/manager/test_stores_below.py",
    "inspect.weight_version": "tests/manager/test_stores_below.py",
    "stats.kinds": "tests/metrics",
    "stats.policy_times": "tests/metrics",
    "inspect.options": "tests/manager/test_echo.py: every key of the configuration",
    "inspect.reusable_unit": "tests/manager/test_prefixes.py",
    "inspect.dump": "tests/manager/test_radix.py: the tree as text",
    "inspect.snapshot": "tests/observe",
    "inspect.explain_sequence": "tests/observe",
    "inspect.explain_block": "tests/observe",
    "stats.hit_rates": "tests/observe",
    "stats.miss_reasons": "tests/observe",
    "stats.miss_reason": "tests/observe",
    "stats.block_lifetimes": "tests/observe",
    "stats.reset_peak": "tests/observe",
    "stats.prefix_stats": "tests/manager/test_prefix_policies.py",
    "log.take_events": "tests/observe",
    "pins.held": "tests/retention",
    "pins.unpin_all": "tests/retention",
    "pins.hint": "tests/retention",
    "pins.block_priority": "tests/retention",
    "pressure.touch": "tests/retention",
    "pressure.preempt_to": "tests/retention",
    "pressure.waiting_order": "tests/manager/test_waiting.py",
    "pressure.level": "tests/manager/test_pressure.py: the walk hears of each change",
    "pressure.remove_callback": "tests/manager/test_pressure.py",
    "inspect.take_tiers": "tests/tiers",
}
"""Public methods that the walk does not call, and who does."""


class Watched:
    """A manager, or a room of one, that notes the names of what is called."""

    def __init__(self, manager: Any, called: set[str], room: str = "") -> None:
        self._manager, self._called, self._room = manager, called, room

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._manager, name)
        if not self._room and name in ROOMS:
            return Watched(found, self._called, f"{name}.")
        self._called.add(self._room + name)
        return found


def uncalled(called: set[str]) -> set[str]:
    """Public methods that are neither in ``called`` nor tested elsewhere."""
    kv = KVCacheManager()
    public = {name for name in dir(KVCacheManager) if not name.startswith("_")}
    for room in ROOMS:
        names = dir(type(getattr(kv, room)))
        public |= {f"{room}.{name}" for name in names if not name.startswith("_")}
    return public - called - ELSEWHERE.keys()
