"""A request (`Request` is the core's), the items in it, and names as the core takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from kvframe._core import Request as Request
from kvframe._core import session_id as _session_id
from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.retention import Retention
from kvframe.spelling import did_you_mean

TokenIds = npt.NDArray[np.integer[Any]] | Sequence[int]
BlockKeys = npt.NDArray[np.uint64] | list[bytes]
"""uint64 (blocks, 2), or an engine's own hash of each block, of which the first 16 bytes count."""

Handles = npt.NDArray[np.integer[Any]] | Sequence[int]


class MMItem(NamedTuple):
    """A multimodal item: prompt tokens ``start`` to ``end`` (exclusive) stand for ``id``."""

    start: int
    end: int
    id: bytes


class RequestOptions(TypedDict, total=False):
    """Keywords of `Request`, for type checkers; a test holds it and the core's table together."""

    keys: BlockKeys | None
    num_tokens: int
    tenant: str
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


PER_TRY = ("chunk", "until", "partial", "resumed", "external_until")
"""Keywords that apply to one attempt, and may stand beside a `Request`."""


def requested(
    prompt: Request | TokenIds | None, options: Mapping[str, Any], per_try: Collection[str] = ()
) -> tuple[Request, dict[str, Any]]:
    """The request of a call, and what applies to this attempt alone.

    Args:
        prompt: A request, or token ids with the keywords of `Request`.
        options: The call's keywords.
        per_try: Those that may stand beside a `Request`.

    Raises:
        UsageError: A keyword is none, or stands beside a `Request` that has its own.
    """
    if not isinstance(prompt, Request):
        try:
            return Request(prompt, **options), {}
        except UsageError as error:
            if isinstance(getattr(prompt, "request", None), Request):
                kind = type(prompt).__name__
                raise UsageError(f"prompt is a {kind}: Tiers.swap_in brings it back") from error
            raise
    for name in sorted(options.keys() - per_try):
        known = RequestOptions.__annotations__
        if name not in known:
            raise UsageError(f"{name}: no option of a request{did_you_mean(name, known)}")
        raise UsageError(f"{name}: part of the Request; make another")
    return prompt, dict(options)


def session_id(session: int | str) -> int:
    """The number by which policies, logs and snapshots know a session.

    It is the same in every process and on every machine. A number stands for itself, 0 for no
    session. A name stands for the first 8 bytes of the SHA-256 of its UTF-8 form, low byte first,
    with the highest bit set: it never equals a number below 2**63. The empty name is no session.

    Raises:
        UsageError: It is neither a number from 0 to 2**64 - 1 nor a string that has a UTF-8 form.
    """
    return _session_id(session)


def one_session(session: int | str | None) -> int | None:
    """The number of a session whose tokens are to be forgotten; None for all.

    Raises:
        UsageError: It names no session.
    """
    number = None if session is None else session_id(session)
    if number == 0:
        raise UsageError(f"session = {shown(session)}: stands for no session; None for all")
    return number


def space(
    salt: str,
    adapter: str,
    extras: Iterable[MMItem],
    encoder: bytes = b"",
    tenant: str = "",
) -> dict[str, Any]:
    """Salt, adapter, extras, the other input and the tenant as the core takes them."""
    if not isinstance(encoder, bytes):
        raise UsageError(f"encoder = {shown(encoder)}: must be bytes")
    items = items_of(extras)
    names = {"salt": name_bytes("cache_salt", salt), "adapter": name_bytes("lora_name", adapter)}
    if named := name_bytes("tenant", tenant):
        names["tenant"] = named
    return {**names, "encoder": encoder, "extras": items}


def name_bytes(name: str, text: str) -> bytes:
    """A name as the core takes it.

    Raises:
        UsageError: It is no string, or has no UTF-8 form (JSON can bring a lone surrogate).
    """
    if not isinstance(text, str):
        none = '; "" stands for none' if text is None else ""
        raise UsageError(f"{name} = {shown(text)}: must be a string{none}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} = {shown(text)}: {error.reason} (place {error.start})") from None


def owner_name(owner: str | None) -> str | None:
    """The owner of pins, checked; None for all of them."""
    if owner is not None:
        name_bytes("owner", owner)
    return owner


def receipt_of(pin: object, kind: type[tuple[int, ...]]) -> tuple[int, int]:
    """The number of a pin, and the block or slot that it names.

    Raises:
        UsageError: It is no receipt of that kind.
    """
    if not isinstance(pin, kind):
        raise UsageError(f"pin = {shown(pin)}: must be the receipt that pin() gave")
    return pin[0], pin[1]


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
            f"mm_items[{place}] = {shown(extra)}: "
            "must be (start, end, id as bytes), 0 <= start < end"
        )
    return start, end, name
