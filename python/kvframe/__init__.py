"""kvframe: which KV-cache blocks live where, who shares them, and which are evicted next.

| name | what for |
| --- | --- |
| `KVCacheManager` | the object that an engine holds |
| `Request`, `MMItem` | what an engine asks for: a prompt, and the multimodal items in it |
| `session_id` | the number by which policies see a session that has a name |
| `Allocation`, `StepResult`, `Hit` | what the manager answers; more in `kvframe.results` |
| `Config`, `CacheConfig` and the other sections | the configuration, as kvframe.toml holds it |
| `Resolved` | a configuration that was checked, with its policies loaded |
| `EvictionPolicy`, `AdmissionPolicy`, `PrefixMatcher`, `TierStore` | what a plugin's hook returns |
| `hookimpl`, `Registry` | marks a plugin's hooks; finds policies by name |
| `Retention`, `Keep`, `TokenRange` | which parts of a prompt are kept longer |
| `RouterIndex`, `Reach` | which of many workers holds a prefix |
| `SlotCache` | a contiguous slot for each sequence |
| `EventKind` | what the entries of the event log mean |
| `KVFrameError` | the base of every error; all of them are in `kvframe.errors` |

| module | what for |
| --- | --- |
| `kvframe.policies`, `kvframe.native` | to write policies: in Python on arrays, or compiled |
| `kvframe.testing` | tests of a policy or a store, for its author |
| `kvframe.blocks` | single blocks, for engines with request books of their own |
| `kvframe.pages`, `kvframe.tiers` | KV bytes in host memory and on a GPU; tiers below the pool |
| `kvframe.stats`, `kvframe.wire` | statistics, the event log, snapshots; engines' KV events |
| `kvframe.integrations` | kvframe inside vLLM, SGLang, LMCache and transformers |
| `kvframe.bench` | replays of real traces under every policy: the command ``kvframe bench`` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

try:
    from kvframe import _core
except ImportError as error:
    raise ImportError(
        "kvframe's compiled core cannot be loaded: in a checkout build it with `make setup`, else "
        "install kvframe again"
    ) from error

from kvframe import renamed
from kvframe.config import (
    AdmissionConfig,
    CacheConfig,
    Config,
    EvictionConfig,
    GroupConfig,
    ModelConfig,
    ObserveConfig,
    PluginsConfig,
    PrefixConfig,
    PressureConfig,
    Resolved,
    RetentionConfig,
    SequenceCapacity,
    TierConfig,
)
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
from kvframe.manager import KVCacheManager
from kvframe.registry import (
    AdmissionPolicy,
    EvictionPolicy,
    PrefixMatcher,
    Registry,
    TierStore,
    hookimpl,
)
from kvframe.request import MMItem, Request, session_id
from kvframe.results import (
    Allocation,
    AllocStatus,
    BlockCounts,
    Changes,
    CommitResult,
    CopyPlan,
    ExpiryResult,
    HintResult,
    HintStatus,
    Hit,
    Lengths,
    Owners,
    PageRange,
    Pin,
    PinInfo,
    PreemptionCandidate,
    Pressure,
    Priority,
    Reason,
    Remap,
    RequestUsage,
    Span,
    StepResult,
    Ticket,
    VisibleRange,
)
from kvframe.retention import Keep, Retention, TokenRange
from kvframe.router import Reach, RouterCounts, RouterIndex
from kvframe.slots import Slot, SlotAllocation, SlotCache, SlotPin, SlotPinInfo

__all__ = [
    "AbiError",
    "AdmissionConfig",
    "AdmissionPolicy",
    "AllocStatus",
    "Allocation",
    "BlockCounts",
    "BusyError",
    "CacheConfig",
    "CapacityError",
    "Changes",
    "CommitResult",
    "Config",
    "ConfigError",
    "CopyPlan",
    "EventKind",
    "EvictionConfig",
    "EvictionPolicy",
    "ExpiryResult",
    "GroupConfig",
    "HandleError",
    "HeldError",
    "HintResult",
    "HintStatus",
    "Hit",
    "IntegrityError",
    "KVCacheManager",
    "KVFrameError",
    "Keep",
    "Lengths",
    "MMItem",
    "ModelConfig",
    "NeverFitsError",
    "ObserveConfig",
    "Owners",
    "PageRange",
    "Pin",
    "PinInfo",
    "PluginError",
    "PluginsConfig",
    "PolicyError",
    "PreemptionCandidate",
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
    "RequestUsage",
    "Resolved",
    "Retention",
    "RetentionConfig",
    "RouterCounts",
    "RouterIndex",
    "SequenceCapacity",
    "Slot",
    "SlotAllocation",
    "SlotCache",
    "SlotPin",
    "SlotPinInfo",
    "Span",
    "StaleHandleError",
    "StepResult",
    "Ticket",
    "TierConfig",
    "TierError",
    "TierStore",
    "TokenRange",
    "TraceError",
    "UnknownSequenceError",
    "UsageError",
    "VisibleRange",
    "__version__",
    "hookimpl",
    "session_id",
]

__version__: str = _core.__version__
"""The version of the package, as its compiled core says it."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise renamed.no_attribute("kvframe", name, renamed.MODULE)
