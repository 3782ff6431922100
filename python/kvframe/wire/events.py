"""The events of the wire, in both forms.

vLLM and SGLang send batches of three, ``[time, events, data-parallel rank]``. Events are maps with
a ``type`` (vLLM from 0.23 on, SGLang), or arrays with the same fields in a fixed order (earlier
vLLM, llm-d, AIBrix).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

Form = Literal["map", "array"]
Hash = int | bytes
"""A block's hash: 64 bits, signed or not, or the bytes of a longer one."""

MAX_BYTES = 16 << 20
"""The largest message. One of a step with 100,000 new tokens has about 600 kB."""

MAX_EVENTS = 1 << 16
"""Most events in a message, and most blocks in an event that names what sets each apart."""

MAX_FREE_BYTES = 4 << 20
"""Most bytes of a message in fields of free form, whose objects take up to 60 times as much."""

_NIL = Raw(b"\xc0")


class BlockStored(Struct, tag=True, tag_field="type", omit_defaults=True):
    """A worker holds blocks, each the child of the one before.

    Attributes:
        block_hashes: The worker's own hashes.
        parent_block_hash: Hash of the block before the first; None at the start of a prompt.
        token_ids: Tokens of all the blocks, one after the other; empty where only the place of
            known blocks is told.
        block_size: Tokens of a block.
        lora_id: The adapter's number, which only earlier engines give.
        medium: The tier.
        lora_name: The adapter's name.
        extra_keys: What else sets each block apart: a list a block, or None.
        group_idx: Layer group, where a model has several.
        kv_cache_spec_kind: What the group's layers attend to.
        cache_salt: What sets tenants apart, where it stands by itself.
    """

    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int | None
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[list[object] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    cache_salt: str | None = None


class BlockRemoved(Struct, tag=True, tag_field="type", omit_defaults=True):
    """A worker no longer holds blocks in a tier."""

    block_hashes: list[Hash]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(Struct, tag=True, tag_field="type"):
    """A rank of a worker holds nothing any more."""


Event = BlockStored | BlockRemoved | AllBlocksCleared


class StoredArray(Struct, array_like=True, tag="BlockStored"):
    """`BlockStored` as an array: ten places, of which none is left out."""

    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int | None
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[list[object] | None] | None
    group_idx: int | None


class RemovedArray(Struct, array_like=True, tag="BlockRemoved"):
    """`BlockRemoved` as an array: four places."""

    block_hashes: list[Hash]
    medium: str | None
    group_idx: int | None


class ClearedArray(Struct, array_like=True, tag="AllBlocksCleared"):
    """`AllBlocksCleared` as an array."""


class ReadStored(Struct, tag="BlockStored", tag_field="type"):
    """`BlockStored` as it is decoded: a field that an engine leaves out is None.

    Fields stand in the order of the arrays of vLLM, which grew with its versions. Those of free
    form stay bytes until they are looked at.
    """

    block_hashes: list[Hash]
    parent_block_hash: Hash | None = None
    token_ids: list[int] | None = None
    block_size: int | None = None
    lora_id: int | None = None
    medium: Raw = _NIL
    lora_name: str | None = None
    extra_keys: Raw = _NIL
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: Raw = _NIL
    session_id: Raw = _NIL
    lookahead_token_ids: Raw = _NIL
    cache_salt: str | None = None


class ReadRemoved(Struct, tag="BlockRemoved", tag_field="type"):
    """`BlockRemoved` as it is read."""

    block_hashes: list[Hash]
    medium: Raw = _NIL
    group_idx: int | None = None
    locality: str | None = None


class ReadCleared(Struct, tag="AllBlocksCleared", tag_field="type"):
    """`AllBlocksCleared` as it is read."""


class ReadStoredArray(ReadStored, array_like=True, tag="BlockStored"):
    """`ReadStored` in an array."""


class ReadRemovedArray(ReadRemoved, array_like=True, tag="BlockRemoved"):
    """`ReadRemoved` in an array."""


class ReadClearedArray(ReadCleared, array_like=True, tag="AllBlocksCleared"):
    """`ReadCleared` in an array."""


class ReadBatch(Struct, array_like=True):
    """A message. Its events are decoded one by one, so a wrong one spoils no other."""

    time: float
    events: Annotated[list[Raw], Meta(max_length=MAX_EVENTS)]
    rank: object = None
