"""Messages of KV events to bytes, as vLLM's own encoder writes them."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable

import msgspec

from kvframe.arguments import shown
from kvframe.errors import UsageError
from kvframe.wire import events as wire
from kvframe.wire.events import AllBlocksCleared, BlockRemoved, BlockStored, Event, Form

FORMS = ("map", "array")

_ENCODER = msgspec.msgpack.Encoder()


def encode(
    events: Iterable[Event], *, time: float | None = None, rank: int = 0, form: Form = "map"
) -> bytes:
    """A message of three: the time, the events, the data-parallel rank.

    A rank always is a number: AIBrix takes none that is nil.

    Args:
        events: In order.
        time: Seconds since 1970; now if None.
        rank: The data-parallel rank whose cache they are about.
        form: ``map`` (vLLM from 0.23 on, SGLang), or ``array`` (before, llm-d, AIBrix). An array
            has no place for ``kv_cache_spec_kind`` and ``cache_salt``.

    Raises:
        UsageError: The form is unknown, or an event cannot be encoded.
    """
    if form not in FORMS:
        raise UsageError(f"form = {shown(form)}: must be map or array")
    body = [as_array(event) for event in events] if form == "array" else list(events)
    try:
        return _ENCODER.encode([clock.time() if time is None else time, body, rank])
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"events that cannot be encoded: {error}") from error


def as_array(event: Event) -> msgspec.Struct:
    """An event with its fields in the order of the arrays."""
    match event:
        case BlockStored():
            return wire.StoredArray(
                event.block_hashes,
                event.parent_block_hash,
                event.token_ids,
                event.block_size,
                event.lora_id,
                event.medium,
                event.lora_name,
                event.extra_keys,
                event.group_idx,
            )
        case BlockRemoved():
            return wire.RemovedArray(event.block_hashes, event.medium, event.group_idx)
        case AllBlocksCleared():
            return wire.ClearedArray()
    raise UsageError(f"event = {shown(event)}: must be of kvframe.wire")
