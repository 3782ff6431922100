"""Puts requests in order of time, if a form lists them session by session."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count

from kvframe.errors import TraceError
from kvframe.traces.reader import Row

Numbered = tuple[int, Row]


def by_session(sessions: Iterable[list[Numbered]]) -> Iterator[Numbered]:
    """The requests of sessions that start one after the other: memory holds the open ones.

    A session's own requests are in order of time. Where sessions do not start in order, neither
    do the requests that come out; `in_order` says so.
    """
    waiting: list[tuple[float, int, int, Row]] = []
    place = count()
    for session in sessions:
        start = session[0][1].timestamp if session else None
        while start is not None and waiting and waiting[0][0] <= start:
            _, _, number, row = heapq.heappop(waiting)
            yield number, row
        for number, row in session:
            heapq.heappush(waiting, (row.timestamp, next(place), number, row))
    while waiting:
        _, _, number, row = heapq.heappop(waiting)
        yield number, row


def in_order(rows: Iterable[Numbered], name: str) -> Iterator[Numbered]:
    """The rows as they are.

    Raises:
        TraceError: A row is earlier than the one before it.
    """
    above = None
    for number, row in rows:
        if above is not None and row.timestamp < above:
            what = (
                f"timestamp {row.timestamp:.16g} ms is before the row above's {above:.16g} ms: "
                "rows must be in order of time (--sort puts them so)"
            )
            raise TraceError(f"{name}:{number}: {what}", name, number)
        above = row.timestamp
        yield number, row
