"""kvframe: which KV-cache blocks live where, who shares them, and which die next.

| name | what for |
| --- | --- |
| `KVCacheManager` | the object an engine holds |
| `Request`, `Grant`, `Stepped` | what it is asked, and what it answers |
| `Config`, `Resolved` | how it is built, from kvframe.toml and more; what became of a config |
| `EvictionPolicy`, `AdmissionPolicy`, `PrefixMatcher`, `TierStore` | what a package's hook gives |
| `hookimpl`, `Registry` | marks the hooks of `kvframe.hookspecs`; finds what they gave, by name |
| `Retention`, `Keep`, `TokenRange` | what of a prompt is kept longer |
| `RouterIndex`, `SlotCache` | which of many caches holds a prefix; a contiguous slot a sequence |
| `KVFrameError` | what every error derives from; all of them are in `kvframe.errors` |

| module | what for |
| --- | --- |
| `kvframe.policies`, `kvframe.native` | writing policies: in Python on arrays, or compiled |
| `kvframe.testing` | whether a policy or a store keeps its promises, as tests of its author |
| `kvframe.pages`, `kvframe.tiers` | KV bytes in host memory and on a GPU; tiers below the pool |
| `kvframe.observe`, `kvframe.wire` | the log and what follows from it; engines' KV events |
| `kvframe.integrations` | vLLM, SGLang, LMCache and transformers on kvframe |
| `kvframe.bench` | real traces replayed under every policy: the command ``kvframe bench`` |
"""

from __future__ import annotations

try:
    from kvframe import _core
except ImportError as error:
    raise ImportError(
        "kvframe's compiled core cannot be loaded: in a checkout build it with `make setup`, else "
        "install kvframe again"
    ) from error

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
    RetentionConfig,
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
    Answer,
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
    Pinned,
    Plan,
    Pressure,
    Priority,
    Reason,
    Remap,
    Sight,
    Span,
    Stepped,
    Taken,
    Ticket,
    Usage,
    Victim,
)
from kvframe.retention import Keep, Retention, TokenRange
from kvframe.router import Reach, RouterCounts, RouterIndex
from kvframe.slots import Slot, SlotCache, SlotGrant

__all__ = [
    "AbiError",
    "AdmissionConfig",
    "AdmissionPolicy",
    "Answer",
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
    "Keep",
    "Lengths",
    "ModelConfig",
    "NeverFitsError",
    "ObserveConfig",
    "Owners",
    "Pages",
    "Pin",
    "Pinned",
    "Plan",
    "PluginError",
    "PluginsConfig",
    "PolicyConfig",
    "PolicyError",
    "PrefixConfig",
    "PrefixMatcher",
    "Pressure",
    "PressureConfig",
    "Priority",
    "Reach",
    "Reason",
    "Registry",
    "Remap",
    "Request",
    "Resolved",
    "Retention",
    "RetentionConfig",
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
    "Taken",
    "Ticket",
    "TierConfig",
    "TierError",
    "TierStore",
    "TokenRange",
    "TraceError",
    "UnknownSequenceError",
    "Usage",
    "UsageError",
    "Victim",
    "__version__",
    "hookimpl",
]

__version__: str = _core.__version__
"""Of the compiled core, which is built with the package."""
