"""KV events as engines publish them: read into a `RouterIndex`, and published for other routers.

| module | purpose |
| --- | --- |
| `events` | the three events and their batch, as maps and as arrays |
| `decode`, `encode` | from bytes, bounded in size and depth; to bytes |
| `apply` | a message's events into a `RouterIndex` |
| `convert` | block events of the log as events of the wire |
| `sockets` | which addresses are allowed, and CURVE |
| `publisher` | batches out: PUB, and a ROUTER that sends lost ones again |
| `announcer` | a manager's blocks through a publisher |
| `stream` | one publisher's batches in order: gaps are filled, restarts noticed |
| `subscriber` | the streams of many workers into a `RouterIndex` |
| `recording` | a stream as a file |

The sockets need pyzmq (``pip install 'kvframe[wire]'``); the rest does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvframe.later import later
from kvframe.wire.apply import apply
from kvframe.wire.convert import hashes_of
from kvframe.wire.decode import Batch, decode
from kvframe.wire.encode import encode
from kvframe.wire.events import AllBlocksCleared, BlockRemoved, BlockStored, Event

if TYPE_CHECKING:
    from kvframe.wire.announcer import Announcer
    from kvframe.wire.publisher import Publisher
    from kvframe.wire.sockets import Curve
    from kvframe.wire.subscriber import Subscriber

__all__ = [
    "AllBlocksCleared",
    "Announcer",
    "Batch",
    "BlockRemoved",
    "BlockStored",
    "Curve",
    "Event",
    "Publisher",
    "Subscriber",
    "apply",
    "decode",
    "encode",
    "hashes_of",
]

_WITH_SOCKETS = {
    "Announcer": "announcer",
    "Curve": "sockets",
    "Publisher": "publisher",
    "Subscriber": "subscriber",
}

if not TYPE_CHECKING:
    __getattr__ = later(__name__, _WITH_SOCKETS)
