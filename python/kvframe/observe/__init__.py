"""Looking into a manager: statistics, its log, snapshots, block events.

| module | purpose |
| --- | --- |
| `statistics` | hit rates, why prefixes ended, how long blocks live |
| `log` | a portion of the ordered log, with the token ids and requests that belong to it |
| `saved` | a log as a file |
| `blocks` | the log as events of blocks stored, removed, cleared, for routers |
| `rebuild` | counters, pressure and the state of every block, rebuilt from the log alone |
| `redrive` | the calls that a log records, made again on a fresh manager |
| `snapshot` | everything a manager holds at one instant, also in words |
"""

from kvframe.observe.blocks import AllBlocksCleared, BlockEvents, BlockRemoved, BlockStored
from kvframe.observe.face import Observed
from kvframe.observe.log import EventLog
from kvframe.observe.rebuild import Rebuild
from kvframe.observe.redrive import redrive
from kvframe.observe.snapshot import Snapshot
from kvframe.observe.statistics import HitRates, Miss, Misses, MissReason, Residency

__all__ = [
    "AllBlocksCleared",
    "BlockEvents",
    "BlockRemoved",
    "BlockStored",
    "EventLog",
    "HitRates",
    "Miss",
    "MissReason",
    "Misses",
    "Observed",
    "Rebuild",
    "Residency",
    "Snapshot",
    "redrive",
]
