"""kvframe: which KV-cache blocks live where, who shares them, and which die next.

`KVCacheManager` is the object an engine holds; `Config` says how it is built, and `Resolved` is
what becomes of a config. A policy may come from any installed package: it marks a hook of
`kvframe.hookspecs` with `hookimpl` and gives an `EvictionPolicy`, an `AdmissionPolicy`, a
`PrefixMatcher` or a `TierStore`; `Registry` finds it by name. `RouterIndex` is for a router over
many caches, `SlotCache` for engines with a contiguous slot a sequence. Every error derives from
`KVFrameError`.
"""

from __future__ import annotations

from kvframe.config import (
    AdmissionConfig,
    CacheConfig,
    Config,
    GroupConfig,
    ModelConfig,
    ObserveConfig,
    PluginsConfig,
    PolicyConfig,
    PrefixConfig,
    PressureConfig,
    Resolved,
    SequenceCapacity,
    TierConfig,
)
from kvframe.descriptors import AdmissionPolicy, EvictionPolicy, PrefixMatcher, TierStore
from kvframe.errors import (
    AbiError,
    BusyError,
    CapacityError,
    ConfigError,
    HandleError,
    HeldError,
    IntegrityError,
    KVFrameError,
    NeverFitsError,
    PluginError,
    PolicyError,
    StaleHandleError,
    TierError,
    TraceError,
    UnknownSequenceError,
    UsageError,
)
from kvframe.events import EventKind
from kvframe.hookspecs import hookimpl
from kvframe.manager import KVCacheManager
from kvframe.registry import Registry
from kvframe.request import Extra, Request
from kvframe.results import (
    Changes,
    Committed,
    Counts,
    Expired,
    Fit,
    Grant,
    Hit,
    Lengths,
    Owners,
    Pages,
    Pin,
    Plan,
    Pressure,
    Reason,
    Remap,
    Sight,
    Span,
    Stepped,
    Ticket,
    Usage,
    Victim,
)
from kvframe.router import Reach, RouterCounts, RouterIndex
from kvframe.slots import Slot, SlotCache, SlotGrant

__all__ = [
    "AbiError",
    "AdmissionConfig",
    "AdmissionPolicy",
    "BusyError",
    "CacheConfig",
    "CapacityError",
    "Changes",
    "Committed",
    "Config",
    "ConfigError",
    "Counts",
    "EventKind",
    "EvictionPolicy",
    "Expired",
    "Extra",
    "Fit",
    "Grant",
    "GroupConfig",
    "HandleError",
    "HeldError",
    "Hit",
    "IntegrityError",
    "KVCacheManager",
    "KVFrameError",
    "Lengths",
    "ModelConfig",
    "NeverFitsError",
    "ObserveConfig",
    "Owners",
    "Pages",
    "Pin",
    "Plan",
    "PluginError",
    "PluginsConfig",
    "PolicyConfig",
    "PolicyError",
    "PrefixConfig",
    "PrefixMatcher",
    "Pressure",
    "PressureConfig",
    "Reach",
    "Reason",
    "Registry",
    "Remap",
    "Request",
    "Resolved",
    "RouterCounts",
    "RouterIndex",
    "SequenceCapacity",
    "Sight",
    "Slot",
    "SlotCache",
    "SlotGrant",
    "Span",
    "StaleHandleError",
    "Stepped",
    "Ticket",
    "TierConfig",
    "TierError",
    "TierStore",
    "TraceError",
    "UnknownSequenceError",
    "Usage",
    "UsageError",
    "Victim",
    "hookimpl",
]
