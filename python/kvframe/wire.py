"""KV events as engines publish them, read into a `RouterIndex`: msgpack, as maps or as arrays.

vLLM and SGLang send batches of three, ``[time, events, data-parallel rank]``. Events are maps with
a ``type`` (vLLM from 0.23 on, SGLang), or arrays with the same fields in a fixed order (earlier
vLLM). Both are read as the same. Of a hybrid model's layer groups, an index takes only the first of
full attention: other groups drop the same hashes while that one still has the blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
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
        "group_idx",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
        "locality",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx", "locality"),
    "AllBlocksCleared": (),
}
"""Fields of each event in the order of its array; later ones say nothing that is used."""

_SALT = "dynamo-cache-salt:"

_RANKS = 1 << 16
"""No worker has as many: a larger number is not one, and would only take memory."""


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
        rank: Data-parallel rank of the sender, which has a cache of its own; 0 where it says none.
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
    return Batch(float(time), found, _rank(rest), len(events) - len(found))


def _rank(rest: list[Any]) -> int:
    rank = rest[0] if rest and is_int(rest[0]) else 0
    if not 0 <= rank < _RANKS:
        raise UsageError(f"a batch of rank {shown(rank)}: must be between 0 and {_RANKS - 1}")
    return int(rank)


def apply(index: RouterIndex, worker: int, payload: bytes) -> Batch:
    """Apply a worker's message to an index; returns the message.

    The message is about the rank that sent it, and about no other one of the worker: what that rank
    stores, removes or clears.

    Raises:
        UsageError: It is not such a batch, or an event lacks what it needs; the others are applied.
    """
    batch = decode(payload)
    wrong: UsageError | None = None
    for event in batch.events:
        try:
            _apply(index, worker, batch.rank, event)
        except UsageError as error:
            wrong = wrong or error
    if wrong is not None:
        raise wrong
    return batch


def _apply(index: RouterIndex, worker: int, rank: int, event: Event) -> None:
    kind, fields = event
    if kind == "AllBlocksCleared":
        index.cleared(worker, rank=rank)
        return
    try:
        hashes = [_hash(one) for one in fields["block_hashes"]]
    except (KeyError, TypeError) as error:
        raise UsageError(f"{kind} without block_hashes: {sorted(fields)}") from error
    if fields.get("locality") == "REMOTE" or not _tells_prefixes(index, worker, fields):
        return
    medium = str(fields.get("medium") or "GPU")
    if kind == "BlockRemoved":
        index.removed(worker, hashes, rank=rank, medium=medium)
        return
    parent = fields.get("parent_block_hash")
    size = fields.get("block_size")
    salt, extra_keys = _apart(fields, first=parent is None)
    index.stored(
        worker,
        hashes,
        None if parent is None else _hash(parent),
        fields.get("token_ids") or (),
        rank=rank,
        block_size=size if isinstance(size, int) else None,
        medium=medium,
        cache_salt=salt,
        lora_name=_adapter(fields),
        extra_keys=extra_keys,
    )


def _tells_prefixes(index: RouterIndex, worker: int, fields: dict[str, Any]) -> bool:
    group, kind = fields.get("group_idx"), fields.get("kv_cache_spec_kind")
    return index.keeps(
        worker,
        group if isinstance(group, int) else None,
        kind if isinstance(kind, str) else None,
    )


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


def _adapter(fields: dict[str, Any]) -> str | None:
    """Its name; the number that earlier engines give it, where it has none."""
    name, number = fields.get("lora_name"), fields.get("lora_id")
    if name is None and isinstance(number, int) and number > 0:
        return str(number)
    return name


def _apart(fields: dict[str, Any], *, first: bool) -> tuple[str | None, Any]:
    """The salt, and what sets each block apart beside that and the adapter.

    vLLM's keys of a block are the adapter's name, multimodal items as pairs, the salt in the
    ``first`` of a prompt, digests of embeddings. In earlier ones an item is a bare string, as the
    salt is: one in the first block is taken for it, and no prompt matches.
    """
    told, keys = fields.get("cache_salt"), fields.get("extra_keys")
    salt = None if told is None else str(told)
    if not isinstance(keys, list):
        return salt, keys
    names = [one for one in (fields.get("lora_name"), fields.get("lora_id")) if one is not None]
    rest = [_without(one, names) for one in keys]
    bare = [one for one in rest[0] if isinstance(one, str)] if first and rest else []
    if bare and salt in (None, bare[0].removeprefix(_SALT)):
        salt = bare[0].removeprefix(_SALT)
        rest[0].remove(bare[0])
    return salt, rest


def _without(keys: Any, names: list[Any]) -> list[Any]:
    """A block's keys without the adapter's, which comes first."""
    if keys is None:
        return []
    if not isinstance(keys, list):
        return [keys]
    return keys[1:] if keys and keys[0] in names else list(keys)
