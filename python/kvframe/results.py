"""What a manager returns: named tuples, and enumerations of reasons and levels."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from kvframe import renamed
from kvframe.errors import KVFrameError
from kvframe.request import Request


class Allocation(NamedTuple):
    """What `KVCacheManager.allocate` granted to one request.

    Attributes:
        seq: The sequence's handle. No later sequence gets the same one.
        cached_tokens: Prompt tokens found in the cache. Computing starts after them, or after the
            tokens that ``load`` brings.
        granted_tokens: Prompt tokens that have slots.
        prompt_tokens: Tokens of the prompt.
        load: Ticket of the tokens that come from elsewhere (``Request.num_external_tokens``).
            Settle it with `KVCacheManager.loaded`, or as ``done`` or ``failed``. None if there are
            none.
        encoder_cached: Whether the KV of the input that ``cross`` groups attend to was found.
        external_tokens: Tokens after the cached ones that ``load`` brings.
        joined_tokens: Tokens after the cached ones that another sequence is computing (``join``).
            Compute behind them in the same step, or hold the request until they are committed.
        attached: The handle attached to exactly this prompt (`BlockPool.attach`).
        prompt: uint32: the token ids to compute, if a prefix matcher has rewritten the prompt; None
            if it has not.
    """

    seq: int
    cached_tokens: int
    granted_tokens: int
    prompt_tokens: int
    load: int | None = None
    encoder_cached: bool = False
    external_tokens: int = 0
    joined_tokens: int = 0
    attached: int | None = None
    prompt: npt.NDArray[np.uint32] | None = None


class CommitResult(NamedTuple):
    """What a commit did, in blocks.

    Attributes:
        stored: Became findable, in the first group.
        duplicates: Those among them of which a copy was findable already.
        freed: Given up in all groups because no later token attends to them, and without
            another owner.
    """

    stored: int
    duplicates: int
    freed: int


class Span(NamedTuple):
    """Tokens ``start`` to ``end`` (exclusive) of a sequence, by absolute position."""

    start: int
    end: int


class VisibleRange(NamedTuple):
    """What the next token of a sequence attends to in a group.

    Attributes:
        visible: Tokens it attends to.
        masked: Tokens that it must not attend to although their KV is in a kept block.
        blocks: Blocks kept.
    """

    visible: list[Span]
    masked: list[Span]
    blocks: int


class CopyPlan(NamedTuple):
    """Pages to copy before the writes of this step; false if there are none.

    Attributes:
        ticket: Hand it back as ``done`` once the copies are queued on the stream of every later
            writer, or as ``failed``. Until then no page of a copy has another owner. -1 if there
            are no copies: then there is nothing to hand back.
        copies: int32 of shape (n, 4): source block, destination block, tokens that matter, group.
    """

    ticket: int
    copies: npt.NDArray[np.int32]

    def __bool__(self) -> bool:
        return self.ticket >= 0


NO_COPIES = CopyPlan(-1, np.empty((0, 4), np.int32))
"""The plan of a step that copies nothing."""
NO_COPIES.copies.flags.writeable = False


class Pin(NamedTuple):
    """A prefix that is kept from eviction.

    Attributes:
        receipt: Its number, which ends it once (`Pins.unpin` takes the whole tuple).
        block: The last block of the prefix.
        tokens: How many tokens are kept.
        found: How many tokens were cached.
    """

    receipt: int
    block: int
    tokens: int
    found: int = 0

    @property
    def clipped(self) -> bool:
        """Whether ``retention.pin_cap`` let it hold less than was cached."""
        return self.tokens < self.found


class PinInfo(NamedTuple):
    """A pin that is held.

    Attributes:
        pin: The receipt, for `Pins.unpin`.
        owner: Whose it is; empty if no owner was given.
        until: When its lease ends; None if it has none.
        blocks: How many blocks it keeps, in all groups.
    """

    pin: Pin
    owner: str
    until: int | None
    blocks: int


class HintStatus(StrEnum):
    """How a hint on a session was taken: `Pins.hint` has the details."""

    ACCEPTED = "accepted"
    CLIPPED = "clipped"
    DEFERRED = "deferred"
    REFUSED = "refused"
    MISSING = "missing"


class HintResult(NamedTuple):
    """The answer to a hint on a session.

    Attributes:
        status: How it was taken.
        blocks: Blocks that it concerned.
        pin: The receipt of the pin that it made, if it made one.
    """

    status: HintStatus
    blocks: int
    pin: Pin | None


class Priority(NamedTuple):
    """A block's retention priority, 0 to 100, and the time at which it changes by itself."""

    priority: int
    changes: int | None


class Hit(NamedTuple):
    """What a lookup found.

    Attributes:
        tokens: Tokens that need not be computed.
        blocks: Their blocks: an int32 array a group; with ``partial_hits``, the last may be
            partial.
        attached: The handle attached to exactly this prompt (`BlockPool.attach`).
    """

    tokens: int
    blocks: list[npt.NDArray[np.int32]]
    attached: int | None = None


class Remap(NamedTuple):
    """A block table's entry that changed although its tokens did not (``remap_duplicates``)."""

    seq: int
    group: int
    place: int
    block: int


class Reason(IntEnum):
    """Why a step did not grant an append, an extension or an admission.

    The typed errors in `StepResult.refused` tell more.
    """

    GRANTED = 0
    NO_CAPACITY = 1
    """More blocks than are free or evictable now."""
    NEVER_FITS = 2
    """More blocks than the pool has."""
    NOT_TRIED = 3
    """The step's token budget is spent, or something before it was refused."""
    POLICY_FAILED = 4
    """A strict policy (``on_error = "raise"``) failed."""
    ASLEEP = 5
    """The manager sleeps."""
    WRONG = 6
    """Its length became impossible because a copy failed in the same step, or its prompt holds what
    is no token id."""
    HELD = 7
    """The admission policy makes the request wait."""


class StepResult(NamedTuple):
    """What a step did.

    Attributes:
        allocations: One for each request, in order; None where it was refused, or not tried because
            something before it was refused.
        refused: ("append", "extend" or "allocate", place in that list, error) for each that was
            refused, for lack of room or because a strict policy failed; it is unchanged.
        rewound: Sequences that were cut because their copy failed, or because a computation that
            they joined was cut; `KVCacheManager.extend` gives slots back.
        plan: Copies to make before this step's writes.
        forks: The new sequence of each fork.
        preempted: For each preempted sequence, the request that brings it back.
        extended: int64: for each extension, the length that has slots now.
        reasons: uint8: a `Reason` for each append, then each extension, then each admission; not 0
            where nothing was granted.
        remapped: Table entries that the commits changed; those of sequences that grow are in
            ``tables`` already.
    """

    allocations: list[Allocation | None]
    refused: list[tuple[str, int, KVFrameError]]
    rewound: list[int]
    plan: CopyPlan
    forks: list[int]
    preempted: list[Request]
    extended: npt.NDArray[np.int64]
    reasons: npt.NDArray[np.uint8]
    remapped: list[Remap]


class Changes(NamedTuple):
    """What other calls than `step` changed besides their own sequence, as in `StepResult`."""

    rewound: list[int]
    remapped: list[Remap]


class PageRange(NamedTuple):
    """Pages of a range of computed tokens.

    Attributes:
        blocks: int32, in order.
        offset: Tokens of the first block that precede the range.
        last: Tokens of the last block up to the end of the range.
    """

    blocks: npt.NDArray[np.int32]
    offset: int
    last: int


class RequestUsage(NamedTuple):
    """What a request cost, in tokens.

    Attributes:
        read: Found in the cache at admission.
        created: Made findable by it and not findable before, in whole blocks.
        joined: Computed by another sequence that it joined.
        loaded: Brought from elsewhere.
        resumed: It came back after a preemption: what it read then is most likely its own.
    """

    read: int
    created: int
    joined: int
    loaded: int
    resumed: bool


class ExpiryResult(NamedTuple):
    """What `KVCacheManager.expire_until` settled.

    Attributes:
        tickets: Tickets whose deadline has passed.
        rewound: Sequences that were cut because a load or a copy did not come.
        pins: Receipts of pins whose lease has ended.
        changed: How many blocks changed their retention priority.
    """

    tickets: list[int]
    rewound: list[int]
    pins: list[int]
    changed: int


class Ticket(NamedTuple):
    """A ticket that is not settled; ``kind`` is ``copies``, ``load`` or ``lease``."""

    ticket: int
    kind: str
    blocks: int
    deadline: int | None


class Owners(NamedTuple):
    """Who holds a block.

    Attributes:
        sequences: Sequences that have it in a table, once for each entry.
        tickets: Copies, loads and leases that keep it.
        waiting: Owners that have left and wait for a fence to pass.
        held: How often it is held by itself (`kvframe.blocks`), or 1 if it was taken.
        pins: (receipt, owner) of each pin that keeps it.
    """

    sequences: list[int]
    tickets: list[int]
    waiting: int
    held: int
    pins: list[tuple[int, str]]


class BlockPrefix(NamedTuple):
    """A prefix of cached blocks, from its first block on.

    Attributes:
        blocks: Their ids, int32.
        keys: Their keys, uint64 of shape (blocks, 2).
    """

    blocks: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]


class Origin(NamedTuple):
    """What a request came with that sets its blocks apart.

    Attributes:
        cache_salt: Its salt, without what a prefix matcher adds to it.
        lora_name: Its adapter; empty if it has none.
        session: Its session's number; 0 if it has none.
        tenant: Whose it is; empty if the request did not say.
        public: Blocks at its front that all share, as ``prefix.public`` says.
    """

    cache_salt: str
    lora_name: str
    session: int
    tenant: str = ""
    public: int = 0

    def of_public(self) -> Origin:
        """What sets the public blocks apart: the adapter alone."""
        return Origin("", self.lora_name, self.session)


class BlockCounts(NamedTuple):
    """Blocks: ``free + cached + referenced == total``, always."""

    free: int
    cached: int
    referenced: int
    total: int

    @property
    def available(self) -> int:
        """Blocks that can be had now: free, or cached."""
        return self.free + self.cached


class Lengths(NamedTuple):
    """Lengths of a sequence in tokens.

    Attributes:
        known: Its tokens.
        slots: Those that have slots.
        committed: Those that are computed and accepted.
        cached: Those found in the cache at admission.
    """

    known: int
    slots: int
    committed: int
    cached: int


class Pressure(IntEnum):
    """How scarce room is; levels change with hysteresis (``[pressure]`` of the configuration)."""

    NORMAL = 0
    HIGH = 1
    CRITICAL = 2


class AllocStatus(IntEnum):
    """Whether a request could begin now; true for `OK` alone."""

    NEVER = 0
    """It needs more blocks than the pool has."""
    LATER = 1
    """Others have to end first, or give up blocks."""
    OK = 2

    def __bool__(self) -> bool:
        return self is AllocStatus.OK


class PreemptionCandidate(NamedTuple):
    """A running sequence that could be preempted.

    Attributes:
        seq: Its handle.
        frees: Blocks that it alone holds, which its end makes available.
        computed: Tokens to compute again if none of it stays cached.
    """

    seq: int
    frees: int
    computed: int


class WaitingCandidate(NamedTuple):
    """A request that waits.

    Attributes:
        place: Its place among those that were named.
        cached: Tokens of its prompt that are cached now.
        uncached: The others, to be computed before its first token.
    """

    place: int
    cached: int
    uncached: int


if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise renamed.no_attribute("kvframe.results", name, renamed.MODULE)
