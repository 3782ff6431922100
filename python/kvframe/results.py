"""What a manager answers with: plain tuples with names."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvframe.errors import KVFrameError


class Grant(NamedTuple):
    """What an admission gave.

    Attributes:
        seq: The sequence's handle; never the same again, even after its slot is reused.
        cached_tokens: Prompt tokens found in the cache. Computing starts at this one, or behind the
            tokens that ``load`` brings.
        granted_tokens: Prompt tokens that have slots.
        prompt_tokens: Tokens of the prompt.
        load: Ticket of the tokens that ``external`` says somebody else brings; settle it with
            `KVCacheManager.loaded`, or as ``done`` or ``failed``.
        encoder_cached: The KV of the input that ``cross`` groups attend to was found.
    """

    seq: int
    cached_tokens: int
    granted_tokens: int
    prompt_tokens: int
    load: int | None = None
    encoder_cached: bool = False


class Committed(NamedTuple):
    """What a commit did, in blocks.

    Attributes:
        stored: Became findable, in the first group.
        duplicates: Of those, findable elsewhere already.
        freed: Given up in all groups, because no token to come attends to them, and held by nobody
            else.
    """

    stored: int
    duplicates: int
    freed: int


class Span(NamedTuple):
    """Tokens ``start`` to ``end`` (exclusive) of a sequence, by their absolute places."""

    start: int
    end: int


class Sight(NamedTuple):
    """What the next token of a sequence sees of a group.

    Attributes:
        visible: Tokens it attends to.
        masked: Tokens whose KV is in a kept block and which it must not attend to.
        blocks: Blocks kept.
    """

    visible: list[Span]
    masked: list[Span]
    blocks: int


class Plan(NamedTuple):
    """Pages to copy before the writes of this step.

    Attributes:
        ticket: Hand it back as ``done`` once the copies are queued on the stream that writes later,
            or as ``failed``. Until then neither page of a copy is given to anybody.
        copies: int32 of shape (n, 4): source block, destination block, tokens that matter, group.
    """

    ticket: int
    copies: npt.NDArray[np.int32]


class Pin(NamedTuple):
    """A prefix that is kept from eviction.

    Attributes:
        receipt: Ends it, once.
        block: The last block of the prefix.
        tokens: How many tokens are kept.
    """

    receipt: int
    block: int
    tokens: int


class Hit(NamedTuple):
    """What a lookup found: tokens that need not be computed, and their blocks in each group."""

    tokens: int
    blocks: list[npt.NDArray[np.int32]]


class Stepped(NamedTuple):
    """What a step did.

    Attributes:
        grants: One an admission, in order; None where it was refused, or not tried because
            something before it was.
        refused: ("append", "extend" or "admit", place, why) for each that was refused for want of
            room, or because a strict policy failed; it is unchanged.
        rewound: Sequences cut because their copy failed; `KVCacheManager.extend` gives slots back.
        plan: Copies to make before this step's writes, or None.
    """

    grants: list[Grant | None]
    refused: list[tuple[str, int, KVFrameError]]
    rewound: list[int]
    plan: Plan | None


class Counts(NamedTuple):
    """Blocks: ``free + cached + referenced == total``, always."""

    free: int
    cached: int
    referenced: int
    total: int


class Lengths(NamedTuple):
    """A sequence in tokens: known, with slots, computed and accepted, found at admission."""

    known: int
    slots: int
    committed: int
    cached: int


class Pressure(IntEnum):
    """How scarce room is; levels change with hysteresis (``[pressure]`` of the configuration)."""

    NORMAL = 0
    HIGH = 1
    CRITICAL = 2


class Victim(NamedTuple):
    """A running sequence that could be preempted.

    Attributes:
        seq: Its handle.
        frees: Blocks that nobody else holds, which its end makes available.
        computed: Tokens to compute again if none of it stays cached.
    """

    seq: int
    frees: int
    computed: int
