"""A message's events into a `RouterIndex`.

Of a hybrid model's layer groups, an index takes only the first of full attention: other groups drop
the same hashes while that one still has the blocks.
"""

from __future__ import annotations

from typing import Any

from kvframe.errors import UsageError
from kvframe.router import RouterIndex
from kvframe.wire.decode import Batch, Cleared, Removed, Stored, decode
from kvframe.wire.events import Hash

SALT = "dynamo-cache-salt:"
"""What Dynamo wants before a salt among the keys of a block."""


def apply(index: RouterIndex, worker: int, payload: bytes, *, rank: int = 0) -> Batch:
    """Apply a worker's message to an index; returns the message.

    The message is about the rank that sent it, and about no other one of the worker: what that rank
    stores, removes or clears.

    Args:
        index: The index.
        worker: The worker's number.
        payload: The message's bytes.
        rank: Data-parallel rank of a sender that says none.

    Raises:
        UsageError: It is not such a batch, or an event makes no sense; the others are applied.
    """
    batch = decode(payload, rank=rank)
    apply_batch(index, worker, batch)
    return batch


def apply_batch(index: RouterIndex, worker: int, batch: Batch) -> None:
    """As `apply`, for a message that is decoded.

    Raises:
        UsageError: An event makes no sense; the others are applied.
    """
    wrong = list(batch.wrong)
    for event in batch.events:
        try:
            _apply(index, worker, batch.rank, event)
        except UsageError as error:
            wrong.append(str(error))
    if wrong:
        raise UsageError(wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""))


def _apply(index: RouterIndex, worker: int, rank: int, event: Stored | Removed | Cleared) -> None:
    if isinstance(event, Cleared):
        index.cleared(worker, rank=rank)
        return
    kind = event.kind if isinstance(event, Stored) else None
    if event.locality == "REMOTE" or not index.keeps(worker, event.group_idx, kind):
        return
    hashes = [_hash(one) for one in event.block_hashes]
    if isinstance(event, Removed):
        index.removed(worker, hashes, rank=rank, medium=event.medium)
        return
    parent = event.parent_block_hash
    salt, extra_keys = _apart(event, first=parent is None)
    index.stored(
        worker,
        hashes,
        None if parent is None else _hash(parent),
        event.token_ids,
        rank=rank,
        block_size=event.block_size,
        medium=event.medium,
        cache_salt=salt,
        lora_name=_adapter(event),
        extra_keys=extra_keys,
    )


def _hash(value: Hash) -> int:
    """A hash as 64 bits: a signed or unsigned number, or the last 8 bytes of a longer one."""
    if isinstance(value, bytes):
        return int.from_bytes(value[-8:], "big")
    return value


def _adapter(event: Stored) -> str | None:
    """The adapter's name; if there is none, the number that earlier engines give."""
    name, number = event.lora_name, event.lora_id
    return str(number) if name is None and number is not None and number > 0 else name


def _apart(event: Stored, *, first: bool) -> tuple[str | None, Any]:
    """The salt, and what sets each block apart beside that and the adapter.

    vLLM's keys of a block are the adapter's name, multimodal items as pairs, the salt in the
    ``first`` of a prompt, digests of embeddings. In earlier ones an item is a bare string, as the
    salt is: one in the first block is taken for it, and no prompt matches.
    """
    salt, keys = event.cache_salt, event.extra_keys
    if not isinstance(keys, list):
        return salt, keys
    names = [one for one in (event.lora_name, event.lora_id) if one is not None]
    rest = [_without(one, names) for one in keys]
    bare = [one for one in rest[0] if isinstance(one, str)] if first and rest else []
    if bare and salt in (None, bare[0].removeprefix(SALT)):
        salt = bare[0].removeprefix(SALT)
        rest[0].remove(bare[0])
    return salt, rest


def _without(keys: Any, names: list[Any]) -> list[Any]:
    """A block's keys without the adapter's, which comes first."""
    if keys is None:
        return []
    if not isinstance(keys, list):
        return [keys]
    return keys[1:] if keys and keys[0] in names else list(keys)
