"""A portion of the ordered log, with its token ids and requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from os import PathLike
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


class Span(NamedTuple):
    """Entries of the log that follow each other and belong together, as one.

    These are blocks of one prefix that are stored one after the other, and blocks that are removed
    one after the other; every other entry is alone, and so is each of a few.

    Attributes:
        tick: As in `Event`, of all of them.
        kind: Likewise, as are the group and the sequence.
        group: Likewise.
        seq: Likewise.
        keys: Of each block.
        parent: Of the first, as are value and other.
        value: Likewise.
        other: Likewise.
        ids: Their token ids, as many for each block.
    """

    tick: int
    kind: EventKind
    group: int
    seq: int
    keys: tuple[bytes, ...]
    parent: bytes
    value: int
    other: int
    ids: npt.NDArray[np.uint32]


_STORE, _EVICT, _FORGET = map(int, (EventKind.STORE, EventKind.EVICT, EventKind.FORGET))
_NAMED = tuple(EventKind)
_FEW = 8
"""Fewer entries are taken one by one: to compare columns costs as much as to take eight."""


@dataclass(frozen=True)
class EventLog:
    """What happened since the log was taken last.

    Attributes:
        events: Arrays of equal length, as `kvframe.stats.events.Log.take_events` gives them.
        ids: uint32, the token ids of the events, one event after the other.
        requests: What each admission among the events asked for, by its sequence.
        block_size: Tokens of a block of the manager; None where it is not known.
    """

    events: Mapping[str, npt.NDArray[Any]]
    ids: npt.NDArray[np.uint32]
    requests: Mapping[int, Request]
    block_size: int | None = None

    @classmethod
    def joined(cls, portions: Iterable[EventLog]) -> EventLog:
        """Portions of one manager's log, in the order in which they were taken, as one.

        Raises:
            UsageError: One of them is no log, or of another block size than the first.
        """
        parts = [checked(part) for part in portions]
        sizes = {part.block_size for part in parts}
        if len(sizes) > 1:
            raise UsageError(f"block_size = {sorted(map(str, sizes))}: must be that of one manager")
        if not parts:
            return cls({}, np.zeros(0, np.uint32), {})
        names = parts[0].events
        events = {name: np.concatenate([part.events[name] for part in parts]) for name in names}
        requests = {seq: request for part in parts for seq, request in part.requests.items()}
        ids = np.concatenate([part.ids for part in parts])
        return cls(events, ids, requests, *sizes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log to a file, gzip if its name ends with ``.gz``, that `load` reads.

        `kvframe bench run --trace` replays the file. It holds the prompts, so only its owner may
        read it. It appears whole or not at all.

        Raises:
            TraceError: It cannot be written; names the file.
        """
        from kvframe.stats import saved  # with gzip and tempfile, which no running engine needs

        saved.write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> EventLog:
        """Read a log that `save` wrote.

        Raises:
            TraceError: There is no such file, it is no log, of another version, or damaged.
        """
        from kvframe.stats import saved

        return cls.parse(saved.read(path), str(path))

    @classmethod
    def parse(cls, data: bytes, name: str) -> EventLog:
        """Read a log from the bytes of a file; ``name`` stands for it in messages.

        Raises:
            TraceError: As `load`.
        """
        from kvframe.stats import saved

        return cls(*saved.decode(data, name))

    def __len__(self) -> int:
        return len(self.events["kind"]) if self.events else 0

    def __iter__(self) -> Iterator[Event]:
        return self.of_kinds(EventKind)

    def of_kinds(self, kinds: Iterable[EventKind]) -> Iterator[Event]:
        """The entries of some kinds, in order."""
        columns = self.events
        chosen = self._chosen(kinds)
        if not len(chosen):
            return
        ends = np.cumsum(columns["ids"], dtype=np.int64)[chosen].tolist()
        names = ("tick", "kind", "group", "block", "seq", "value", "other", "ids")
        rows = zip(*(columns[name][chosen].tolist() for name in names), strict=True)
        keys, parents = (_bytes(columns[name][chosen]) for name in ("key", "parent"))
        for (tick, kind, group, block, seq, value, other, count), key, parent, end in zip(
            rows, keys, parents, ends, strict=True
        ):
            ids = self.ids[end - count : end]
            yield Event(tick, _NAMED[kind], group, block, seq, key, parent, value, other, ids)

    def spans(self, kinds: Iterable[EventKind]) -> Iterator[Span]:
        """The entries of some kinds, in order; those that belong together as one."""
        chosen = self._chosen(kinds)
        if not len(chosen):
            return
        columns = {name: column[chosen] for name, column in self.events.items()}
        starts = np.flatnonzero(_begins(columns))
        stops = [*starts[1:].tolist(), len(chosen)]
        ends = np.cumsum(self.events["ids"], dtype=np.int64)[chosen]
        firsts = (ends - columns["ids"])[starts].tolist()
        names = ("tick", "kind", "group", "seq", "value", "other", "ids")
        rows = zip(*(columns[name][starts].tolist() for name in names), strict=True)
        keys, parents = _bytes(columns["key"]), _bytes(columns["parent"][starts])
        for (tick, kind, group, seq, value, other, each), start, stop, parent, first in zip(
            rows, starts.tolist(), stops, parents, firsts, strict=True
        ):
            ids = self.ids[first : first + each * (stop - start)]
            own = tuple(keys[start:stop])
            yield Span(tick, _NAMED[kind], group, seq, own, parent, value, other, ids)

    def _chosen(self, kinds: Iterable[EventKind]) -> npt.NDArray[np.intp]:
        """The places of the entries of some kinds."""
        if not self.events:
            return np.zeros(0, np.intp)
        return np.flatnonzero(_wanted(tuple(kinds))[self.events["kind"]])


@cache
def _wanted(kinds: tuple[EventKind, ...]) -> npt.NDArray[np.bool_]:
    """By kind: whether it is among these."""
    wanted = np.zeros(len(EventKind), np.bool_)
    wanted[[*kinds]] = True
    return wanted


def _begins(columns: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Which entries do not belong to the one before."""
    kind, other, key, parent = (columns[name] for name in ("kind", "other", "key", "parent"))
    begins: npt.NDArray[np.bool_] = np.ones(len(kind), np.bool_)
    if len(kind) < _FEW:
        return begins
    same, later = np.ones(len(kind) - 1, np.bool_), kind[1:]
    for name in ("kind", "tick", "group"):
        same &= columns[name][1:] == columns[name][:-1]
    behind = (later == _STORE) & (other[1:] == other[:-1] + 1)
    behind &= (parent[1:, 0] == key[:-1, 0]) & (parent[1:, 1] == key[:-1, 1])
    for name in ("seq", "ids"):
        behind &= columns[name][1:] == columns[name][:-1]
    begins[1:] = ~(same & (behind | (later == _EVICT) | (later == _FORGET)))
    return begins


def checked(log: EventLog) -> EventLog:
    """Return ``log`` unchanged, if it is a log.

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
