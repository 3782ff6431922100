"""Names for the kinds of the ordered event log (`KVCacheManager.take_events`)."""

from __future__ import annotations

from enum import IntEnum


class EventKind(IntEnum):
    """What happened. ``value`` of the event is given where it means something."""

    ADMIT = 0
    """A sequence was admitted; value: prompt tokens."""
    HIT = 1
    """The block was found for the sequence."""
    ALLOCATE = 2
    """The block went to the sequence, empty."""
    COMMIT = 3
    """The sequence is computed and accepted; value: up to this length."""
    STORE = 4
    """The block became findable under its key; value: the block it follows."""
    EVICT = 5
    """The block lost its key and its place to make room."""
    RELEASE = 6
    """The sequence let go of the block."""
    FINISH = 7
    """The sequence ended; value: its length."""
    COPY = 8
    """The block is to be copied; value: to this block."""
    FORK = 9
    """The sequence was forked; value: from this one."""
    TRUNCATE = 10
    """The sequence was cut; value: to this length."""
    CLEAR = 11
    """Every cached block was forgotten; value: blocks freed."""
    APPEND = 12
    """The sequence grew; value: to this length."""
    LEND = 13
    """The block went out on loan."""
    RETURN = 14
    """The block came back from a loan."""
    FORGET = 15
    """The block is no longer findable, though it was not evicted."""
