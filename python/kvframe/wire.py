"""KV events as engines publish them, read into a `RouterIndex`: msgpack, as maps or as arrays.

vLLM and SGLang send batches of three, ``[time, events, data-parallel rank]``. Events are maps with
a ``type`` (vLLM from 0.23 on, SGLang), or arrays with the same fields in a fixed order (earlier
vLLM). Both are read as the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kvframe.errors import UsageError
from kvframe.request import shown
from kvframe.router import RouterIndex

_FIELDS: dict[str, tuple[str, ...]] = {
    "BlockStored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
    ),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}
"""Fields of each event in the order of its array; later ones say nothing that is used."""

_SALT = "dynamo-cache-salt:"


class Event(NamedTuple):
    """One event.

    Attributes:
        kind: ``BlockStored``, ``BlockRemoved`` or ``AllBlocksCleared``.
        fields: Those that came, by name.
    """

    kind: str
    fields: dict[str, Any]


class Batch(NamedTuple):
    """One message.

    Attributes:
        time: Seconds since 1970, by the sender's clock.
        events: In order; those of kinds that are not known are left out.
        rank: Data-parallel rank of the sender; 0 where it says none.
        unknown: Events left out.
    """

    time: float
    events: list[Event]
    rank: int
    unknown: int


def decode(payload: bytes) -> Batch:
    """What a message says.

    Raises:
        UsageError: It is not such a batch.
    """
    try:
        time, events, *rest = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"a batch that cannot be read, {shown(payload)}: {error}") from error
    if not isinstance(events, list) or not isinstance(time, int | float):
        raise UsageError("a batch is [time, events, rank]: events is no array, or time no number")
    found = [event for one in events if (event := _event(one)) is not None]
    rank = rest[0] if rest and isinstance(rest[0], int) else 0
    return Batch(float(time), found, rank, len(events) - len(found))


def apply(index: RouterIndex, worker: int, payload: bytes) -> Batch:
    """Tell an index what a worker's message says; what it said.

    Raises:
        UsageError: It is not such a batch, or an event lacks what it needs. Events before that one
            are applied.
    """
    batch = decode(payload)
    for kind, fields in batch.events:
        if kind == "AllBlocksCleared":
            index.cleared(worker)
            continue
        try:
            hashes = [_hash(one) for one in fields["block_hashes"]]
        except (KeyError, TypeError) as error:
            raise UsageError(f"{kind} without block_hashes: {sorted(fields)}") from error
        medium = fields.get("medium") or "GPU"
        if kind == "BlockRemoved":
            index.removed(worker, hashes, medium=medium)
            continue
        parent = fields.get("parent_block_hash")
        index.stored(
            worker,
            hashes,
            None if parent is None else _hash(parent),
            fields.get("token_ids") or (),
            medium=medium,
            salt=_salt(fields),
            adapter=fields.get("lora_name"),
        )
    return batch


def _event(one: Any) -> Event | None:
    if not isinstance(one, dict | list):
        return None
    kind = one.get("type") if isinstance(one, dict) else one[0] if one else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        return None
    if isinstance(one, dict):
        return Event(kind, {name: value for name, value in one.items() if name != "type"})
    return Event(kind, dict(zip(_FIELDS[kind], one[1:], strict=False)))


def _hash(value: int | bytes) -> int:
    """64 bits of a hash: signed, unsigned, or the end of more bytes."""
    if isinstance(value, bytes):
        return int.from_bytes(value[-8:], "big")
    return value


def _salt(fields: dict[str, Any]) -> str | None:
    if (salt := fields.get("cache_salt")) is not None:
        return str(salt)
    keys = fields.get("extra_keys")
    first = keys[0] if isinstance(keys, list) and keys else None
    for key in first if isinstance(first, list) else ():
        if isinstance(key, str) and key.startswith(_SALT):
            return key.removeprefix(_SALT)
    return None
