"""Memory below a manager's pool: host memory, a local disk, remote stores.

`Tiers` moves KV between them and the pool, as ``[[tiers]]`` of the configuration says. A store is a
plugin: a `PageStore`, described by the hook ``kvframe_store``.
"""

from __future__ import annotations

from kvframe.tiers.base import PollResult
from kvframe.tiers.codec import Codec, CorruptError
from kvframe.tiers.cost import SwapCost
from kvframe.tiers.disk import Disk, DiskOptions
from kvframe.tiers.erasure import Erasure, TierErasure
from kvframe.tiers.moves import Event, Mover, Part
from kvframe.tiers.object_keys import Space
from kvframe.tiers.onboard import Arriving, Loading
from kvframe.tiers.store import PageStore
from kvframe.tiers.swap import Swapped
from kvframe.tiers.tier_index import TierTenantRow
from kvframe.tiers.tiers import TierHit, Tiers
from kvframe.tiers.worker import Inline, Thread, Worker

__all__ = [
    "Arriving",
    "Codec",
    "CorruptError",
    "Disk",
    "DiskOptions",
    "Erasure",
    "Event",
    "Inline",
    "Loading",
    "Mover",
    "PageStore",
    "Part",
    "PollResult",
    "Space",
    "SwapCost",
    "Swapped",
    "Thread",
    "TierErasure",
    "TierHit",
    "TierTenantRow",
    "Tiers",
    "Worker",
]
