"""Converts block events of the log to events of the wire, and keys to the hashes that both use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.router import routing_salt
from kvframe.stats import blocks as log
from kvframe.wire.events import AllBlocksCleared, BlockRemoved, BlockStored, Event


def hashes_of(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The hashes (uint64) by which a manager's events name blocks, of their keys.

    Args:
        keys: uint64 of shape (blocks, 2), as `BlockPool.hash_blocks` returns them.

    Raises:
        UsageError: The array is of another shape or dtype.
    """
    if not isinstance(keys, np.ndarray) or keys.dtype != np.uint64 or keys.shape[1:] != (2,):
        raise UsageError(f"keys = {shown(keys)}: must be uint64 of shape (blocks, 2)")
    low: npt.NDArray[np.uint64] = np.where(keys[:, 0] == 0, np.uint64(1), keys[:, 0])
    return low


def hash_of(key: bytes) -> int:
    """The low 64 bits of a key as a hash; 1 in place of 0, because llm-d reads 0 as "no parent"."""
    return int.from_bytes(key[:8], "little") or 1


def _hashes(keys: Sequence[bytes]) -> list[int | bytes]:
    """As `hash_of` each."""
    low: list[int | bytes] = np.frombuffer(b"".join(keys), "<u8")[::2].tolist()
    return [one or 1 for one in low] if 0 in low else low


def wire_event(event: log.BlockEvent, *, token_ids: bool, grouped: bool) -> Event:
    """An event of the log as one of the wire.

    Args:
        event: Of one layer group.
        token_ids: Whether token ids, names and items are sent, not only hashes.
        grouped: Whether the model has several layer groups; the event is of the one of full
            attention.
    """
    if isinstance(event, log.AllBlocksCleared):
        return AllBlocksCleared()
    group = event.group if grouped else None
    hashes: list[int | bytes] = _hashes(event.keys)
    if isinstance(event, log.BlockRemoved):
        return BlockRemoved(hashes, event.medium, group)
    parent = None if event.parent_key is None else hash_of(event.parent_key)
    stored = BlockStored(hashes, parent, [], event.block_size, None, event.medium, None)
    stored.group_idx = group
    stored.kv_cache_spec_kind = "full_attention" if grouped else None
    if token_ids:
        stored.token_ids = event.token_ids.tolist()
        stored.lora_name = event.adapter or None
        salt = routing_salt(event.tenant, event.salt, event.encoder)
        stored.extra_keys = _extra_keys(event, salt)
        if parent is None:
            stored.cache_salt = salt or None
    return stored


def _extra_keys(event: log.BlockStored, salt: str) -> list[list[object] | None] | None:
    """What sets each block apart, in vLLM's order: adapter, items, and the salt in the first."""
    if not (event.adapter or event.extras or salt):
        return None
    keys: list[list[object] | None] = []
    for at in range(event.start, event.start + len(event.keys)):
        start, end = at * event.block_size, (at + 1) * event.block_size
        own: list[object] = [event.adapter] if event.adapter else []
        for item in sorted(event.extras):
            if item.start < end and item.end > start:
                own.append([_name(item.id), item.start - start])
        if salt and at == 0:
            own.append(salt)
        keys.append(own or None)
    return keys if any(keys) else None


def _name(identifier: bytes) -> Any:
    try:
        return identifier.decode()
    except UnicodeDecodeError:
        return identifier
