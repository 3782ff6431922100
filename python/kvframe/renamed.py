"""The names of before the first release, and what took their place.

Using one raises an error whose message gives the new name. No old name works any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from kvframe.errors import UsageError

MODULE: Mapping[str, str] = {
    "Answer": "HintResult",
    "Committed": "CommitResult",
    "Counts": "BlockCounts",
    "Expired": "ExpiryResult",
    "Extra": "MMItem",
    "Fit": "AllocStatus",
    "Grant": "Allocation",
    "Pages": "PageRange",
    "Pinned": "PinInfo",
    "Plan": "CopyPlan",
    "Sight": "VisibleRange",
    "SlotGrant": "SlotAllocation",
    "SlotPinned": "SlotPinInfo",
    "Stepped": "StepResult",
    "Taken": "HintStatus",
    "Usage": "RequestUsage",
    "Victim": "PreemptionCandidate",
}
"""Types of `kvframe` and `kvframe.results`."""

MANAGER: Mapping[str, str] = {
    "add_pressure_callback": "pressure.add_callback",
    "admit": "allocate",
    "append_unknown": "append_placeholders",
    "attach": "blocks.attach",
    "block_priority": "pins.block_priority",
    "clear_cache": "reset_prefix_cache",
    "collect": "evict_until",
    "dump": "inspect.dump",
    "eviction_order": "inspect.eviction_order",
    "expire": "expire_until",
    "explain_block": "inspect.explain_block",
    "explain_sequence": "inspect.explain_sequence",
    "fill": "fill_placeholders",
    "fits": "can_allocate",
    "give_back": "blocks.free",
    "hash_blocks": "blocks.hash_blocks",
    "hint": "pins.hint",
    "hit_rates": "stats.hit_rates",
    "lease": "pins.lease",
    "lend": "blocks.take",
    "live": "inspect.running",
    "miss": "stats.miss_reason",
    "misses": "stats.miss_reasons",
    "options": "inspect.options",
    "owners": "blocks.owners",
    "pages": "inspect.pages",
    "pin": "pins.pin",
    "preempt_to": "pressure.preempt_to",
    "preemption_order": "pressure.preemption_order",
    "prefix_stats": "stats.prefix_stats",
    "ragged_tables": "block_tables(indptr=…)",
    "readable": "inspect.num_readable_tokens",
    "remove_pressure_callback": "pressure.remove_callback",
    "request_usage": "stats.request_usage",
    "reserve": "extend(lookahead=…)",
    "reset_peak": "stats.reset_peak",
    "residency": "stats.block_lifetimes",
    "resolved": "inspect.resolved",
    "reusable_unit": "inspect.reusable_unit",
    "seq_lens": "block_tables(seq_lens=…)",
    "set_deadline": "pins.set_deadline",
    "set_fingerprint": "set_weight_version",
    "sight": "inspect.visible_range",
    "snapshot": "inspect.snapshot",
    "take_changes": "log.take_changes",
    "take_dropped": "blocks.take_detached",
    "take_events": "log.take_events",
    "take_log": "log.take",
    "tickets": "inspect.tickets",
    "touch": "pressure.touch",
    "unkeyed_blocks": "blocks.unhashed_blocks",
    "unpin": "pins.unpin",
    "unpin_all": "pins.unpin_all",
    "usage": "pressure.usage",
}
"""Methods of `KVCacheManager`."""

CACHE: Mapping[str, str] = {
    "admit": "allocate",
    "clear_cache": "reset_prefix_cache",
    "set_fingerprint": "set_weight_version",
}
"""Methods that `kvframe.SlotCache` and `kvframe.tiers.Tiers` had."""


def no_attribute(owner: str, name: str, renamed: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that a module lacks, with its new name if it had an old one."""
    if (now := renamed.get(name)) is not None:
        return AttributeError(f"{owner}.{name} is called {owner}.{now} now", name=name)
    return AttributeError(f"{owner} has no attribute {name!r}", name=name)


class _OldName:
    """Stands in a class for a method that was renamed: reading it raises the error with the new
    name.
    """

    def __init__(self, name: str, now: str) -> None:
        self.name, self.now = name, now

    def __get__(self, instance: object, owner: type) -> NoReturn:
        there = owner.__name__
        raise AttributeError(f"{there}.{self.name} is called {there}.{self.now} now")


class Renamed(type):
    """The class of a class that had other names: ``class C(metaclass=Renamed, old=MANAGER)``.

    Its old names say the new ones, and stay out of ``dir`` and ``help``.
    """

    # Not `__getattr__`: a class that has one looks every attribute up the slow way, which costs
    # the shortest verbs a third of their time.
    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **old: Any
    ) -> Renamed:
        names = {was: _OldName(was, now) for was, now in old.get("old", {}).items()}
        quiet = {"__dir__": _names_of} if names else {}
        return super().__new__(cls, name, bases, {**names, **quiet, **namespace})

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_old: Any
    ) -> None:
        super().__init__(name, bases, namespace)

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if not _is_old(cls, name)]


def _is_old(owner: type, name: str) -> bool:
    return any(isinstance(one.__dict__.get(name), _OldName) for one in owner.__mro__)


def _names_of(instance: object) -> list[str]:
    return [name for name in object.__dir__(instance) if not _is_old(type(instance), name)]


class Room:
    """An object whose name was a method of `KVCacheManager`: calling it says what to call."""

    _instead: str

    if not TYPE_CHECKING:

        def __call__(self, *_args: object, **_options: object) -> NoReturn:
            raise UsageError(
                f"this is an object now; what it answered as a method is {self._instead}"
            )
