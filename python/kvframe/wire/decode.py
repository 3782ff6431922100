"""Messages of KV events from bytes: bounded in size and depth, with typed errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.wire import events as wire
from kvframe.wire.events import MAX_BYTES, MAX_FREE_BYTES, Hash

_RANKS = 1 << 16
"""No worker has as many: a larger number is not one, and would only take memory."""

_BAD = (msgspec.DecodeError, TypeError, ValueError, RecursionError)

_MAP = msgspec.msgpack.Decoder(wire.ReadStored | wire.ReadRemoved | wire.ReadCleared)
_ARRAY = msgspec.msgpack.Decoder(
    wire.ReadStoredArray | wire.ReadRemovedArray | wire.ReadClearedArray
)
_BATCH = msgspec.msgpack.Decoder(wire.ReadBatch)
_KINDS = ("BlockStored", "BlockRemoved", "AllBlocksCleared")


class Stored(NamedTuple):
    """Blocks that a worker holds, as `kvframe.wire.events.BlockStored` has them."""

    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int | None
    medium: str
    lora_name: str | None
    lora_id: int | None
    extra_keys: Any
    group_idx: int | None
    kind: str | None
    locality: str | None
    cache_salt: str | None


class Removed(NamedTuple):
    """Blocks that a worker no longer holds in a tier."""

    block_hashes: list[Hash]
    medium: str
    group_idx: int | None
    locality: str | None


class Cleared(NamedTuple):
    """A rank of a worker holds nothing any more."""


class Batch(NamedTuple):
    """One message.

    Attributes:
        time: Seconds since 1970, by the sender's clock.
        events: In order; those of kinds that are not known are left out.
        rank: Data-parallel rank of the sender, which has a cache of its own.
        unknown: Events left out.
        wrong: What is wrong with events of known kinds, which are left out too.
    """

    time: float
    events: list[Stored | Removed | Cleared]
    rank: int
    unknown: int
    wrong: list[str]


def decode(payload: bytes, *, rank: int = 0) -> Batch:
    """Decode a message.

    Args:
        payload: The message's bytes, at most `MAX_BYTES`.
        rank: Data-parallel rank of a sender that says none.

    Raises:
        UsageError: It is not such a batch, or larger.
    """
    if len(payload) > MAX_BYTES:
        raise UsageError(f"a batch of {len(payload)} bytes: must be at most {MAX_BYTES}")
    try:
        batch = _BATCH.decode(payload)
    except _BAD as error:
        raise UsageError(f"a batch that cannot be read, {shown(payload)}: {error}") from error
    found: list[Stored | Removed | Cleared] = []
    wrong: list[str] = []
    free = MAX_FREE_BYTES
    for raw in batch.events:
        try:
            event, free = _event(raw, free)
        except UsageError as error:
            wrong.append(str(error))
            continue
        if event is not None:
            found.append(event)
    unknown = len(batch.events) - len(found) - len(wrong)
    return Batch(batch.time, found, _rank(batch.rank, rank), unknown, wrong)


def _rank(told: object, unless: int) -> int:
    rank = told if is_int(told) else unless
    if not isinstance(rank, int) or not 0 <= rank < _RANKS:
        raise UsageError(f"a batch of rank {shown(rank)}: must be between 0 and {_RANKS - 1}")
    return rank


def _event(raw: Raw, free: int) -> tuple[Stored | Removed | Cleared | None, int]:
    """An event, None if its kind is not known; and the bytes of free form left for later ones."""
    data = memoryview(raw)
    is_array = bool(data) and (0x90 <= data[0] <= 0x9F or data[0] in (0xDC, 0xDD))
    try:
        read = (_ARRAY if is_array else _MAP).decode(raw)
    except _BAD as error:
        kind = _kind(raw, is_array)
        if kind not in _KINDS:
            return None, free
        raise UsageError(f"{kind}: {error}") from error
    if isinstance(read, wire.ReadCleared):
        return Cleared(), free
    keys = read.extra_keys if isinstance(read, wire.ReadStored) else Raw(b"\xc0")
    free -= len(memoryview(read.medium)) + len(memoryview(keys))
    if free < 0:
        raise UsageError(f"extra_keys of a batch: must be at most {MAX_FREE_BYTES} bytes")
    medium = str(_free(read.medium) or "GPU")
    if isinstance(read, wire.ReadRemoved):
        return Removed(read.block_hashes, medium, read.group_idx, read.locality), free
    return (
        Stored(
            read.block_hashes,
            read.parent_block_hash,
            read.token_ids or [],
            read.block_size,
            medium,
            read.lora_name,
            read.lora_id,
            _free(keys),
            read.group_idx,
            read.kv_cache_spec_kind,
            read.locality,
            read.cache_salt,
        ),
        free,
    )


def _free(raw: Raw) -> Any:
    try:
        return msgspec.msgpack.decode(raw)
    except _BAD as error:
        raise UsageError(f"a field that cannot be read: {error}") from error


class _MapKind(msgspec.Struct):
    type: str


def _kind(raw: Raw, is_array: bool) -> str | None:
    """The kind that an event names, whatever else is in it."""
    try:
        if is_array:
            first, *_ = msgspec.msgpack.decode(raw, type=list[Raw])
            return msgspec.msgpack.decode(first, type=str)
        return msgspec.msgpack.decode(raw, type=_MapKind).type
    except _BAD:
        return None
