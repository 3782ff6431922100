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

``__all__`` has what most programs use. The other types of `kvframe.results`, `kvframe.config` and
`kvframe.errors` can be imported from here as well.

| module | what for |
| --- | --- |
| `kvframe.policies`, `kvframe.native` | to write policies: in Python on arrays, or compiled |
| `kvframe.testing` | tests of a policy or a store, for its author |
| `kvframe.pages`, `kvframe.tiers` | KV bytes in host memory and on a GPU; tiers below the pool |
| `kvframe.stats`, `kvframe.wire` | statistics, the event log, snapshots; engines' KV events |
| `kvframe.metrics` | what Prometheus reads |
| `kvframe.integrations` | kvframe inside vLLM, SGLang, LMCache and transformers |
| `kvframe.bench` | replays of real traces under every policy: the command ``kvframe bench`` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from kvframe import _core
except ImportError as error:
    raise ImportError(
        "kvframe's compiled core cannot be loaded: in a checkout build it with `make setup`, else "
        "install kvframe again"
    ) from error

from kvframe import renamed
from kvframe.config import (
    AdmissionConfig as AdmissionConfig,
)
from kvframe.config import (
    CacheConfig as CacheConfig,
)
from kvframe.config import (
    Config,
    Resolved,
)
from kvframe.config import (
    EvictionConfig as EvictionConfig,
)
from kvframe.config import (
    GroupConfig as GroupConfig,
)
from kvframe.config import (
    ModelConfig as ModelConfig,
)
from kvframe.config import (
    ObserveConfig as ObserveConfig,
)
from kvframe.config import (
    PluginsConfig as PluginsConfig,
)
from kvframe.config import (
    PrefixConfig as PrefixConfig,
)
from kvframe.config import (
    PressureConfig as PressureConfig,
)
from kvframe.config import (
    RetentionConfig as RetentionConfig,
)
from kvframe.config import (
    SecurityConfig as SecurityConfig,
)
from kvframe.config import (
    SequenceCapacity as SequenceCapacity,
)
from kvframe.config import (
    TenantConfig as TenantConfig,
)
from kvframe.config import (
    TierConfig as TierConfig,
)
from kvframe.errors import (
    AbiError as AbiError,
)
from kvframe.errors import (
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
    TierError,
    UsageError,
)
from kvframe.errors import (
    StaleHandleError as StaleHandleError,
)
from kvframe.errors import (
    TraceError as TraceError,
)
from kvframe.errors import (
    UnknownSequenceError as UnknownSequenceError,
)
from kvframe.events import EventKind
from kvframe.later import later
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
    CommitResult,
    CopyPlan,
    HintStatus,
    Hit,
    Lengths,
    Pin,
    PreemptionCandidate,
    Pressure,
    Reason,
    StepResult,
    WaitingCandidate,
)
from kvframe.results import (
    Changes as Changes,
)
from kvframe.results import (
    ExpiryResult as ExpiryResult,
)
from kvframe.results import (
    HintResult as HintResult,
)
from kvframe.results import (
    Owners as Owners,
)
from kvframe.results import (
    PageRange as PageRange,
)
from kvframe.results import (
    PinInfo as PinInfo,
)
from kvframe.results import (
    Priority as Priority,
)
from kvframe.results import (
    Remap as Remap,
)
from kvframe.results import (
    RequestUsage as RequestUsage,
)
from kvframe.results import (
    Span as Span,
)
from kvframe.results import (
    Ticket as Ticket,
)
from kvframe.results import (
    VisibleRange as VisibleRange,
)
from kvframe.retention import Keep, Retention, TokenRange

if TYPE_CHECKING:
    from kvframe.router import Reach as Reach
    from kvframe.router import RouterCounts as RouterCounts
    from kvframe.router import RouterIndex
    from kvframe.slots import Slot as Slot
    from kvframe.slots import SlotAllocation as SlotAllocation
    from kvframe.slots import SlotCache
    from kvframe.slots import SlotPin as SlotPin
    from kvframe.slots import SlotPinInfo as SlotPinInfo

__all__ = [
    "AdmissionPolicy",
    "AllocStatus",
    "Allocation",
    "BlockCounts",
    "BusyError",
    "CapacityError",
    "CommitResult",
    "Config",
    "ConfigError",
    "CopyPlan",
    "EventKind",
    "EvictionPolicy",
    "HandleError",
    "HeldError",
    "HintStatus",
    "Hit",
    "IntegrityError",
    "KVCacheManager",
    "KVFrameError",
    "Keep",
    "Lengths",
    "MMItem",
    "NeverFitsError",
    "Pin",
    "PluginError",
    "PolicyError",
    "PreemptionCandidate",
    "PrefixMatcher",
    "Pressure",
    "Reason",
    "Registry",
    "Request",
    "Resolved",
    "Retention",
    "RouterIndex",
    "SlotCache",
    "StepResult",
    "TierError",
    "TierStore",
    "TokenRange",
    "UsageError",
    "WaitingCandidate",
    "__version__",
    "hookimpl",
    "session_id",
]

__version__: str = _core.__version__
"""The version of the package, as its compiled core says it."""

_LATER = {
    "Reach": "router",
    "RouterCounts": "router",
    "RouterIndex": "router",
    "Slot": "slots",
    "SlotAllocation": "slots",
    "SlotCache": "slots",
    "SlotPin": "slots",
    "SlotPinInfo": "slots",
}
"""Modules that an engine may do without: imported when a name of theirs is asked for."""

if not TYPE_CHECKING:
    __getattr__ = later("kvframe", _LATER, renamed.MODULE)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
