"""Options of the built-in eviction policies. Ticks are the core's logical clock."""

from __future__ import annotations

from typing import Annotated

import msgspec

Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
AttentionBlocks = Annotated[
    Positive,
    msgspec.Meta(
        description="Depth in blocks at which a block's attention costs as much as all else."
    ),
]


class SlruOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``slru``."""

    protected_uses: Annotated[
        Positive, msgspec.Meta(description="A block used this often outlives all used less.")
    ] = 2


class SlruListsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``slru-lists``."""

    protected_percent: Annotated[
        Percent, msgspec.Meta(description="Share of the blocks that may be protected.")
    ] = 80


class SlruDecayOptions(SlruOptions, frozen=True, forbid_unknown_fields=True):
    """Options of ``slru-decay``."""

    debounce_ticks: Annotated[
        Number,
        msgspec.Meta(description="Ticks after a counted use during which further ones do not."),
    ] = 4
    decay_ticks: Annotated[
        Positive,
        msgspec.Meta(description="Ticks without a use after which a block is no longer protected."),
    ] = 600


class LfuAgedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``lfu-aged``."""

    half_life_ticks: Annotated[
        Positive,
        msgspec.Meta(
            description="A use counts half after this many ticks, a few for each request."
        ),
    ] = 4096


class WlfuOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``wlfu``."""

    bonus_ticks: Annotated[
        Number, msgspec.Meta(description="Ticks that each factor of e in hits is worth.")
    ] = 1000


class GreedyDualOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``gdsf`` and ``cost``."""

    attention_blocks: AttentionBlocks = 2048


class BeladyComputeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``belady-compute``."""

    attention_blocks: AttentionBlocks = 2048


class MarconiOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``marconi``."""

    alpha_percent: Annotated[
        Number,
        msgspec.Meta(description="Weight of the work to compute a block, in percent of recency's."),
    ] = 1
    attention_blocks: AttentionBlocks = 2048


class TtlOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``ttl``."""

    session_ticks: Annotated[
        Number, msgspec.Meta(description="How long blocks of sessions live after a use, in ticks.")
    ] = 100_000
    one_shot_ticks: Annotated[
        Number, msgspec.Meta(description="How long other blocks live after a use, in ticks.")
    ] = 1000


class TwoQOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``2q``."""

    in_percent: Annotated[
        Percent, msgspec.Meta(description="Share of the pool for blocks used once, in percent.")
    ] = 25
    out_percent: Annotated[
        Number,
        msgspec.Meta(description="Evicted used-once keys to remember, in percent of the blocks."),
    ] = 50


class S3FifoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``s3-fifo``."""

    small_percent: Annotated[
        Percent, msgspec.Meta(description="Share of the blocks that the small queue may hold.")
    ] = 10


class MqOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``mq``."""

    lifetime: Annotated[
        Positive,
        msgspec.Meta(
            description="Block accesses without a use after which a block moves a queue down."
        ),
    ] = 10_000


class LirsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``lirs``."""

    hir_percent: Annotated[
        Percent,
        msgspec.Meta(description="Share of the blocks for those with a long time between uses."),
    ] = 1


class WTinyLfuOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``w-tinylfu``."""

    window_percent: Annotated[
        Percent, msgspec.Meta(description="Share of the blocks for what just came in.")
    ] = 1
