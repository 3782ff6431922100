"""A portion of the ordered log with all that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.events import EventKind
from kvframe.request import Request


class Event(NamedTuple):
    """One entry of the log; see `EventKind` for what ``value`` and ``other`` mean.

    ``block`` is -1 and ``seq`` 0 where there is none; keys are 16 bytes, zeros where there is none;
    ``ids`` are the token ids that come along (uint32).
    """

    tick: int
    kind: EventKind
    group: int
    block: int
    seq: int
    key: bytes
    parent: bytes
    value: int
    other: int
    ids: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class EventLog:
    """What happened since the log was taken last.

    Attributes:
        events: Arrays of equal length, as `KVCacheManager.take_events` gives them.
        ids: uint32, the token ids of the events, one event after the other.
        requests: What each admission among the events asked for, by its sequence.
    """

    events: Mapping[str, npt.NDArray[Any]]
    ids: npt.NDArray[np.uint32]
    requests: Mapping[int, Request]

    def __len__(self) -> int:
        return len(self.events["kind"])

    def __iter__(self) -> Iterator[Event]:
        columns = self.events
        names = ("tick", "kind", "group", "block", "seq", "value", "other", "ids")
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        keys, parents = (_bytes(columns[name]) for name in ("key", "parent"))
        at = 0
        for (tick, kind, group, block, seq, value, other, count), key, parent in zip(
            rows, keys, parents, strict=True
        ):
            ids = self.ids[at : at + count]
            at += count
            kind = EventKind(kind)
            yield Event(tick, kind, group, block, seq, key, parent, value, other, ids)


def checked(log: EventLog) -> EventLog:
    """A log, as it was given.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(log, EventLog):
        raise UsageError(f"log = {shown(log)}: must be an EventLog")
    return log


def _bytes(words: npt.NDArray[np.uint64]) -> list[bytes]:
    """Rows of two words, the low one first, as 16 bytes each."""
    flat = words.astype("<u8").tobytes()
    return [flat[i : i + 16] for i in range(0, len(flat), 16)]
