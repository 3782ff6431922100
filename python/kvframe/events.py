"""Names for the kinds of the ordered event log (`kvframe.stats.events.Log.take_events`)."""

from __future__ import annotations

from enum import IntEnum


class EventKind(IntEnum):
    """What happened. ``value`` and ``other`` of the event are given where they mean something."""

    ALLOCATE = 0
    """A sequence was allocated; value: prompt tokens, other: found of them."""
    HIT = 1
    """The block was found for the sequence."""
    OBTAIN = 2
    """The block went to the sequence, empty."""
    COMMIT = 3
    """The sequence is computed and accepted up to value tokens; other: 1 if it is about to be."""
    STORE = 4
    """The block became findable under its key, after the block before; value: its parent block,
    other: its place in the prefix. Its token ids come along where they are known, those of a
    partial block too. Without a sequence: published by itself."""
    EVICT = 5
    """The block lost its key and its place to make room; value: 0 for a sequence, 1 for a block
    that is taken by itself, 2 ahead of need."""
    RELEASE = 6
    """An owner let go of the block: the sequence, or 0 for a ticket, a fence or a pin."""
    FINISH = 7
    """The sequence ended; value: its length in tokens."""
    COPY = 8
    """The block is to be copied to value; other: tokens of it."""
    FORK = 9
    """The sequence was forked from the sequence value."""
    TRUNCATE = 10
    """The sequence was cut to value tokens with slots; other: tokens still known."""
    RESET = 11
    """Every cached block was forgotten; value: blocks freed."""
    APPEND = 12
    """The sequence grew to value tokens; other: new tokens whose ids are not known yet. Other ids
    come along."""
    TAKE = 13
    """The block was taken by itself; value: its tenant's place in ``[[tenants]]``, from 1, or 0."""
    RETURN = 14
    """The block that was taken is free again."""
    FORGET = 15
    """The block is no longer findable, though it was not evicted: a superfluous copy, a reset."""
    RESUME = 16
    """A preempted sequence came back: as ALLOCATE."""
    MISS = 17
    """Why no more was found for the sequence; value: the reason, group: the layer group that
    could not go on, other: full blocks looked for."""
    REFUSE = 18
    """Value blocks were wanted, other could be had: refused."""
    COLLIDE = 19
    """Value keys matched while the tokens did not."""
    HOLD = 20
    """The block has an owner more: the sequence by a fork or a join, else a ticket, a fence or a
    pin."""
    WAIT = 21
    """The block waits for the fence value."""
    EXTEND = 22
    """Known tokens of the sequence got slots up to value."""
    FILL = 23
    """Ids that were missing came; they come along."""
    PLAN = 24
    """The plan of copies was taken; value: its ticket, other: copies."""
    DONE = 25
    """The ticket value is done."""
    FAIL = 26
    """The ticket value failed; other: pages that were not filled."""
    LOADED = 27
    """The load value has ended with other good blocks."""
    LAND = 28
    """The first tokens of the sequence, up to value, came from elsewhere."""
    BRING = 29
    """A load brought value tokens, each counted once."""
    REWIND = 30
    """The sequence was cut to value tokens with slots because a copy failed."""
    LEASE = 31
    """The first value tokens of the sequence are held for a reader elsewhere; other: the
    ticket."""
    FENCE = 32
    """Until further notice, blocks given up wait for the step value; for none if other is 1."""
    PASS = 33
    """Steps up to value have run."""
    EVICT_UNTIL = 34
    """Room was made: value free blocks were wanted."""
    RESIZE = 35
    """The pool has value blocks from now on."""
    SLEEP = 36
    """The manager sleeps: no sequence is admitted."""
    WAKE = 37
    """Sequences are admitted again."""
    WEIGHTS = 38
    """Other weights; the bytes of their fingerprint come along as ids."""
    PRESSURE = 39
    """The pressure level is value from now on: 0 normal, 1 high, 2 critical."""
    LOAD = 40
    """The sequence gets other blocks, which a load fills; value: the ticket."""
    PIN = 41
    """What is held up to the block stays until the receipt value is back."""
    UNPIN = 42
    """The receipt value of the hold up to the block is back."""
    STAND_IN = 43
    """The sequence stands in for the sequence value, which ends before its load; other: its tokens
    with slots."""
    JOIN = 44
    """The sequence shares other tokens that a live sequence is computing; value: the ticket."""
    REMAP = 45
    """A table of the sequence has the block instead of its own block value; other: the place."""
    PARTIAL = 46
    """Value tokens of a partial block were found for the sequence, besides those its admission
    names."""
    FORK_PREFIX = 47
    """The first value tokens of the sequence are forked; other: 1 if a partial block is copied at
    once."""
    TOUCH_BLOCKS = 48
    """Blocks are held one by one once more; they come along as ids."""
    FREE = 49
    """Blocks are held one by one once less; they come along as ids."""
    RETAIN = 50
    """The block has the retention priority value from now on."""
    CLOCK = 51
    """It is value by the caller's clock, which retention goes by."""
    TOUCH = 52
    """The sequence was read or scheduled."""
    HINT = 53
    """A hint on the session value was taken; other: 0 retain, 1 release, 2 demote, then a byte each
    of priority and of priority after it, and 1 if it falls evenly; its duration comes along as ids,
    the low half first."""
    RESET_SCOPE = 54
    """What one salt, adapter or session left was forgotten; value: 1 if the salt is given, 2 if the
    adapter is, 4 if the session, which is other, is. The number of the salt's bytes, they and the
    adapter's come along as ids."""
    REMATCH = 55
    """The sequence was looked up again: value tokens need not be computed, which were other. The
    tokens of its prompt, 1 if it came back after a preemption, and 1 if blocks found are counted,
    come along as ids."""
    ABORT = 56
    """The sequence ends, and nothing more of it becomes findable."""
    KEYS = 57
    """Keys of further full blocks of the sequence became known; their 32-bit words, the lowest
    first, come along as ids."""
    COMPUTED = 58
    """The sequence is computed up to value tokens, where it was committed ahead."""
