"""Sessions of a trace, and what is known of them only afterwards: their ends and their pauses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe import _core

Numbers = npt.NDArray[np.int64]
NONE = -1


class Turns(NamedTuple):
    """A column each, an entry a request; `NONE` where there is none."""

    session: Numbers
    turn: Numbers
    following: Numbers
    """The next request of the session."""
    pause: Numbers
    """Milliseconds until that one arrives."""


def turns_of(trace: _core.Trace) -> Turns:
    """The sessions that rows name; where none does, those that prompts tell.

    A request whose prompt begins with all full blocks of an earlier prompt, two at least, is its
    next turn; of several such prompts the longest counts, and of equal ones the last.
    """
    columns = trace.columns()
    session = columns["session"].astype(np.int64)
    if not (session >= 0).any():
        session = trace.sessions_by_prompts()
    times = columns["timestamp_ms"]
    turn = np.zeros(trace.requests, np.int64)
    following = np.full(trace.requests, NONE)
    last: dict[int, int] = {}
    for at, number in enumerate(session.tolist()):
        if number == NONE:
            continue
        before = last.get(number)
        if before is not None:
            turn[at] = turn[before] + 1
            following[before] = at
        last[number] = at
    goes_on = following != NONE
    pause = np.full(trace.requests, NONE)
    pause[goes_on] = times[following[goes_on]] - times[goes_on]
    return Turns(session, turn, following, pause)
