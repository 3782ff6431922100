"""Looking into a manager: statistics, its log, snapshots, block events.

| module | purpose |
| --- | --- |
| `counters` | ``kv.stats``: counters, hit rates, why prefixes ended |
| `events` | ``kv.log``: the ordered log, taken portion by portion |
| `inspect` | ``kv.inspect``: sequences, blocks and tickets as they are now |
| `rates` | hit rates, why prefixes ended, how long blocks live |
| `log` | a portion of the ordered log, with the token ids and requests that belong to it |
| `saved` | a log as a file |
| `blocks` | the log as events of blocks stored, removed, cleared, for routers |
| `rebuild` | counters, pressure and the state of every block, rebuilt from the log alone |
| `redrive` | the calls that a log records, made again on a fresh manager |
| `snapshot` | everything a manager holds at one instant, also in words |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvframe.later import later
from kvframe.stats.log import EventLog
from kvframe.stats.rates import BlockLifetimes, HitRates, Miss, Misses, MissReason
from kvframe.stats.snapshot import Snapshot

if TYPE_CHECKING:
    from kvframe.stats.blocks import AllBlocksCleared, BlockEvents, BlockRemoved, BlockStored
    from kvframe.stats.rebuild import Rebuild
    from kvframe.stats.redriving import redrive

__all__ = [
    "AllBlocksCleared",
    "BlockEvents",
    "BlockLifetimes",
    "BlockRemoved",
    "BlockStored",
    "EventLog",
    "HitRates",
    "Miss",
    "MissReason",
    "Misses",
    "Rebuild",
    "Snapshot",
    "redrive",
]

_LATER = {
    "AllBlocksCleared": "blocks",
    "BlockEvents": "blocks",
    "BlockRemoved": "blocks",
    "BlockStored": "blocks",
    "Rebuild": "rebuild",
    "redrive": "redriving",
}
"""What no manager needs: imported when it is asked for."""

if not TYPE_CHECKING:
    __getattr__ = later(__name__, _LATER)
