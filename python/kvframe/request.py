"""A request: the prompt, and what sets it apart. Made once, however often it is tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from kvframe._core import Request as CoreRequest
from kvframe._core import session_id as _session_id
from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.retention import Retention

TokenIds = npt.NDArray[np.integer[Any]] | Sequence[int]
Handles = npt.NDArray[np.integer[Any]] | Sequence[int]


class MMItem(NamedTuple):
    """A multimodal item: prompt tokens ``start`` to ``end`` (exclusive) stand for ``id``."""

    start: int
    end: int
    id: bytes


class RequestOptions(TypedDict, total=False):
    """Keywords of `Request`."""

    keys: npt.NDArray[np.uint64] | None
    num_tokens: int
    cache_salt: str
    lora_name: str
    mm_items: Iterable[MMItem]
    session: int | str
    turn: int
    request_class: int
    priority: int
    read_cache: bool
    write_cache: bool
    resumed: bool
    partial: bool
    chunk: int | None
    until: int | None
    max_seq_len: int
    full_sequence_must_fit: bool
    num_external_tokens: int
    external_until: int
    join: bool
    encoder: bytes
    encoder_tokens: int
    next_use: npt.NDArray[np.uint32] | None
    retention: Retention | None


def session_id(session: int | str) -> int:
    """The number by which policies, logs and snapshots know a session.

    It is the same in every process and on every machine. A number stands for itself, 0 for no
    session. A name stands for the first 8 bytes of the SHA-256 of its UTF-8 form, low byte first,
    with the highest bit set: it never equals a number below 2**63. The empty name is no session.

    Raises:
        UsageError: It is neither a number from 0 to 2**64 - 1 nor a string that has a UTF-8 form.
    """
    number: int = _session_id(session)
    return number


def one_session(session: int | str | None) -> int | None:
    """The number of a session whose tokens are to be forgotten; None for all.

    Raises:
        UsageError: It names no session.
    """
    number = None if session is None else session_id(session)
    if number == 0:
        raise UsageError(f"session = {shown(session)}: stands for no session; None for all")
    return number


class Request:
    """A prompt and how to serve it, for `KVCacheManager.allocate` and `KVCacheManager.step`.

    Its prompt is copied, and hashed the first time it is tried; a retry hashes nothing.

    Args:
        prompt: Token ids, any integer dtype. None if only ``keys`` and ``num_tokens`` are known.
        keys: uint64 (blocks, 2), as `BlockPool.hash_blocks` returns them.
        num_tokens: Length of the prompt where the token ids are not known; with them, theirs.
        cache_salt: Prefixes are shared only among requests of the same salt.
        lora_name: As ``cache_salt``, for LoRA and other adapters.
        mm_items: Multimodal items among the tokens.
        session: The conversation, a number or a name (`session_id` is the number that policies
            see). For policies, as are the next three; 0 if unknown.
        turn: Turn within the session.
        request_class: The engine's own numbering of request types.
        priority: Larger is more important.
        read_cache: Look for cached blocks.
        write_cache: Leave computed blocks findable.
        resumed: It comes back after a preemption; statistics count it apart.
        partial: Take as many slots as can be had instead of refusing for lack of room. With
            ``max_seq_len``, what can never fit is refused all the same.
        chunk: Slots for this many tokens after the cached ones; `KVCacheManager.extend` gives more,
            in steps of as many. Where layer groups give blocks up, it bounds what the prompt holds
            at once: a request that could not be computed in such steps is refused at once.
        until: Slots up to this length at most.
        max_seq_len: Most tokens of prompt and answer together: what can never fit is refused at
            once, and so are tokens past it. 0 if it is unknown; then a sequence may outgrow the
            cache.
        full_sequence_must_fit: Admit only if all of ``max_seq_len`` could be had now. Later
            admissions leave it the room that it still lacks.
        num_external_tokens: Tokens after the cached ones whose KV comes from elsewhere (a lower
            tier, another engine's prefill); whole blocks, of all groups. `Allocation.load` is their
            ticket.
        external_until: The same, given as a length: KV of the prompt's first tokens up to here can
            be brought. Tokens that are cached are not brought; it is no error if none are left.
        join: Share blocks that a running sequence is computing for the same prompt, instead of
            computing them too: `Allocation.joined_tokens`. They are good once that sequence commits
            them. If it is cut or ends before that, this sequence is cut to what is good, and
            `StepResult.rewound` or `Log.take_changes` says so. Blocks that are being loaded
            for another sequence are shared, too: they are good once the load has ended, and
            ``loaded`` or ``failed`` names this sequence among those that it cuts. Only where every
            group is of full attention or a sliding window, in blocks of ``cache.block_size``.
        encoder: Content id of the input that ``cross`` groups attend to; a prefix is shared only
            among requests with the same input. Without an id, nothing of the sequence is shared.
        encoder_tokens: Tokens of that input; their blocks are held from admission to the end.
        next_use: uint32 per block of ``cache.block_size`` tokens: when it is used next, as far as
            the engine can tell, in any count of its own that grows with time, such as the index of
            the request. 4294967295 (`kvframe.policies.NO_NEXT_USE`) is "not known", and so is an
            entry that is missing. Each request that uses a block says it anew. Policies see it as
            ``next_use``; the built-in ``next-use`` goes by it.
        retention: How important its blocks are, and for how long (`kvframe.retention.Retention`).

    Raises:
        UsageError: A value is of the wrong type or out of range, or ``max_seq_len`` is below the
            length of the prompt.
    """

    __slots__ = ("core", "prepared", "resumed")

    def __init__(self, prompt: TokenIds | None, **options: Unpack[RequestOptions]) -> None:
        given: dict[str, Any] = dict(options)
        given.update(
            space(
                given.pop("cache_salt", ""),
                given.pop("lora_name", ""),
                given.pop("mm_items", ()),
                given.pop("encoder", b""),
            )
        )
        for old, new in (
            ("outlook", "next_use"),
            ("whole_sequence", "full_sequence_must_fit"),
            ("external", "num_external_tokens"),
            ("read", "read_cache"),
            ("insert", "write_cache"),
            ("max_tokens", "max_seq_len"),
        ):
            if new in given:
                given[old] = given.pop(new)
        retention = given.pop("retention", None)
        if retention is not None:
            if not isinstance(retention, Retention):
                raise UsageError(f"retention = {shown(retention)}: must be a Retention")
            given["retention"] = retention.of_core()
        self.core = CoreRequest(prompt, **given)
        self.prepared: tuple[object, CoreRequest] | None = None
        self.resumed = False

    @classmethod
    def of_core(cls, core: CoreRequest) -> Request:
        """Wrap a request that the core returned."""
        request = cls.__new__(cls)
        request.core = core
        request.prepared = None
        # Its prompt was rewritten when it was admitted first.
        request.resumed = True
        return request

    def __len__(self) -> int:
        """Tokens of the prompt."""
        return len(self.core)


def space(
    salt: str, adapter: str, extras: Iterable[MMItem], encoder: bytes = b""
) -> dict[str, Any]:
    """Salt, adapter, extras and the other input as the core takes them."""
    if not isinstance(encoder, bytes):
        raise UsageError(f"encoder = {shown(encoder)}: must be bytes")
    items = items_of(extras)
    names = {"salt": name_bytes("cache_salt", salt), "adapter": name_bytes("lora_name", adapter)}
    return {**names, "encoder": encoder, "extras": items}


def name_bytes(name: str, text: str) -> bytes:
    """A name as the core takes it.

    Raises:
        UsageError: It is no string, or has no UTF-8 form (JSON can bring a lone surrogate).
    """
    if not isinstance(text, str):
        raise UsageError(f"{name} = {shown(text)}: must be a string")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} = {shown(text)}: {error.reason} (place {error.start})") from None


def items_of(extras: Iterable[MMItem]) -> list[tuple[int, int, bytes]]:
    """Multimodal items as the core takes them.

    Raises:
        UsageError: One of them is no (start, end, id), or they are no sequence.
    """
    try:
        given = enumerate(extras)
    except TypeError:
        limit = "must be a sequence of (start, end, id as bytes)"
        raise UsageError(f"mm_items = {shown(extras)}: {limit}") from None
    return [_item(place, extra) for place, extra in given]


def _item(place: int, extra: MMItem) -> tuple[int, int, bytes]:
    try:
        start, end, name = extra
        start, end = index(start), index(end)
        fits = 0 <= start < end < 2**32 and isinstance(name, bytes)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise UsageError(
            f"mm_items[{place}] = {shown(extra)}: must be (start, end, id as bytes), 0 <= start < end"
        )
    return start, end, name
