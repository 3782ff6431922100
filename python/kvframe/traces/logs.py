"""A saved event log as the rows of a trace: one for each admission, in order."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.errors import TraceError
from kvframe.events import EventKind
from kvframe.stats.log import EventLog

_TICKS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
"""Milliseconds of a unit, as a fraction."""


def rows(log: EventLog, name: str, time_unit: str | None = None) -> bytes:
    """The rows, JSONL in Mooncake's form.

    A block's id stands for its key, so that requests share what they shared in the manager.
    Resumed sequences give no second row, and refused requests give none.

    Args:
        log: From its start, so that what was cached before is known.
        name: Stands for the log in messages.
        time_unit: "s", "ms", "us" or "ns", that of the manager's clock
            (`KVCacheManager.expire_until`); None: a tick is a millisecond, which puts the requests
            in order and no more.

    Raises:
        TraceError: No request was admitted, the block size is not known, or the manager had no
            clock.
    """
    if log.block_size is None:
        raise TraceError(f"{name}: the log does not say its block size", name)
    lines = [msgspec.json.encode(row) for row in _rows(log, name, log.block_size, time_unit)]
    if not lines:
        raise TraceError(f"{name}: no requests: the log admits none", name)
    return b"\n".join(lines) + b"\n"


def _rows(log: EventLog, name: str, size: int, unit: str | None) -> Iterator[dict[str, object]]:
    events = log.events
    kinds = events["kind"] if events else np.zeros(0, np.uint8)
    times = _times(log, name, unit)
    ends = _ends(log)
    ids: dict[bytes, int] = {}
    for at in np.flatnonzero(kinds == EventKind.ALLOCATE).tolist():
        seq = int(events["seq"][at])
        request = log.requests[seq]
        tokens, session, keys = len(request), request.session, request.keys
        row = {
            "timestamp": int(times[at]),
            "input_length": tokens,
            "output_length": max(0, ends.get(seq, tokens) - tokens),
            "hash_ids": _ids(keys, tokens // size, ids),
            "block_size": size,
        }
        yield row | ({"session_id": session} if session else {})


def _ids(keys: npt.NDArray[np.uint64] | None, blocks: int, known: dict[bytes, int]) -> list[int]:
    """An id for each full block: the id of its key, or a unique one if the block has no key."""
    raw = b"" if keys is None else keys[:blocks].astype("<u8").tobytes()
    found = [raw[i : i + 16] for i in range(0, len(raw), 16)]
    # These names differ in length from a key, so none of them can equal one.
    found += [b"alone %d" % (len(known) + i) for i in range(blocks - len(found))]
    return [known.setdefault(key, len(known)) for key in found]


def _ends(log: EventLog) -> dict[int, int]:
    """The last known length of each sequence, in tokens."""
    if not log.events:
        return {}
    grown = np.isin(log.events["kind"], [EventKind.APPEND, EventKind.FINISH])
    seqs, lengths = (log.events[column][grown].tolist() for column in ("seq", "value"))
    return dict(zip(seqs, lengths, strict=True))


def _times(log: EventLog, name: str, unit: str | None) -> npt.NDArray[np.uint64]:
    """When each event happened, in milliseconds."""
    if unit is None or not log.events:
        return log.events["tick"] if log.events else np.zeros(0, np.uint64)
    at = np.flatnonzero(log.events["kind"] == EventKind.CLOCK)
    if not len(at):
        raise TraceError(f"{name}: time unit {unit}: the log has no clock", name)
    clock = log.events["value"][at].astype(np.uint64)
    # Events before the clock was first set get that first time.
    last = np.searchsorted(at, np.arange(len(log)), side="right").clip(1) - 1
    by, of = _TICKS[unit]
    times: npt.NDArray[np.uint64] = clock[last] * np.uint64(by) // np.uint64(of)
    return times
