"""The built-in eviction policies: described here, run by the core.

They come through the same hook as every other policy. Each orders the blocks that the core says may
be evicted; that a leaf goes before its parent is the core's rule, not theirs.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kvframe.descriptors import EvictionPolicy
from kvframe.hookspecs import hookimpl


class SlruOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``slru``."""

    protected_uses: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=2**32 - 1, description="A block used this often outlives all used less."
        ),
    ] = 2


class LfuAgedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``lfu-aged``."""

    half_life_ticks: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=2**32 - 1,
            description="A use counts half after this many ticks, a few for each request.",
        ),
    ] = 4096


class WlfuOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``wlfu``."""

    bonus_ticks: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=2**32 - 1, description="Ticks that each factor of e in hits is worth."
        ),
    ] = 1000


class GreedyDualOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``gdsf`` and ``cost``."""

    attention_blocks: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=2**32 - 1,
            description="Blocks before one for which attention takes as much as all the rest.",
        ),
    ] = 2048


class TtlOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``ttl``."""

    session_ticks: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=2**32 - 1,
            description="How long blocks of sessions live after a use, in ticks.",
        ),
    ] = 100_000
    one_shot_ticks: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=2**32 - 1, description="How long other blocks live after a use, in ticks."
        ),
    ] = 1000


class TwoQOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``2q``."""

    in_percent: Annotated[
        int,
        msgspec.Meta(ge=0, le=100, description="Share of the blocks that used-once ones may hold."),
    ] = 25
    out_percent: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=2**32 - 1,
            description="Keys remembered of evicted used-once blocks, by the blocks.",
        ),
    ] = 50


class S3FifoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``s3-fifo``."""

    small_percent: Annotated[
        int,
        msgspec.Meta(
            ge=0, le=100, description="Share of the blocks that the small queue may hold."
        ),
    ] = 10


class MqOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``mq``."""

    lifetime: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=2**32 - 1,
            description="Block accesses without a use after which a block moves a queue down.",
        ),
    ] = 10_000


BUILTIN = (
    EvictionPolicy(
        name="lru",
        way="builtin",
        summary="least recently used first",
        source="vLLM, SGLang and TensorRT-LLM: their default",
    ),
    EvictionPolicy(
        name="fifo",
        way="builtin",
        summary="first inserted first",
        source="LMCache, FlexKV",
    ),
    EvictionPolicy(
        name="lfu",
        way="builtin",
        summary="fewest uses first, then least recently used",
        source="SGLang",
    ),
    EvictionPolicy(
        name="lfuda",
        way="builtin",
        summary="fewest uses first, aged by the score of the last victim",
        source="Arlitt et al., Performance Evaluation Review 27(4), 2000",
    ),
    EvictionPolicy(
        name="slru",
        way="builtin",
        summary="blocks below protected_uses uses first, then least recently used",
        source="SGLang",
        options=SlruOptions,
    ),
    EvictionPolicy(
        name="foresight",
        way="builtin",
        summary="worth least by the time it takes up first, measured by class of reuse",
        source="kvframe; KVCache in the Wild, ATC 2025; LHD, NSDI 2018; Gittins, 1979",
    ),
    EvictionPolicy(
        name="mru",
        way="builtin",
        summary="most recently used first",
        source="LMCache, FlexKV",
    ),
    EvictionPolicy(
        name="filo",
        way="builtin",
        summary="last inserted first",
        source="SGLang, FlexKV",
    ),
    EvictionPolicy(
        name="lfu-aged",
        way="builtin",
        summary="fewest uses first, each use fading by half_life_ticks",
        source="LRFU: Lee et al., IEEE Transactions on Computers 50(12), 2001",
        options=LfuAgedOptions,
    ),
    EvictionPolicy(
        name="wlfu",
        way="builtin",
        summary="least recently used first, later by the logarithm of hits",
        source="SGLang #23781",
        options=WlfuOptions,
    ),
    EvictionPolicy(
        name="hpt",
        way="builtin",
        summary="fewest hits by tokens of the prefix first",
        source="SGLang #30300",
    ),
    EvictionPolicy(
        name="gdsf",
        way="builtin",
        summary="lowest uses times recompute cost first, aged by the last victim",
        source="Cherkasova, HPL-98-69, 1998",
        options=GreedyDualOptions,
    ),
    EvictionPolicy(
        name="cost",
        way="builtin",
        summary="lowest recompute cost first, aged by the last victim",
        source="GreedyDual: Young, Algorithmica 11, 1994",
        options=GreedyDualOptions,
    ),
    EvictionPolicy(
        name="priority",
        way="builtin",
        summary="lowest priority of any request first, then least recently used",
        source="SGLang; TensorRT-LLM",
    ),
    EvictionPolicy(
        name="longest-first",
        way="builtin",
        summary="deepest first, then least recently used",
        source="cbtop",
    ),
    EvictionPolicy(
        name="ttl",
        way="builtin",
        summary="first to expire first, by last use and a time for each class",
        source="inference-lab; Continuum",
        options=TtlOptions,
    ),
    EvictionPolicy(
        name="clock",
        way="builtin",
        summary="first in first, another round for what was used since",
        source="Corbató, 1968",
    ),
    EvictionPolicy(
        name="sieve",
        way="builtin",
        summary="a hand spares what was used since it came by",
        source="Zhang et al., NSDI 2024",
    ),
    EvictionPolicy(
        name="2q",
        way="builtin",
        summary="used once in a FIFO, back again in an LRU",
        source="Johnson and Shasha, VLDB 1994",
        options=TwoQOptions,
    ),
    EvictionPolicy(
        name="arc",
        way="builtin",
        summary="recency and frequency share by their ghosts' hits",
        source="Megiddo and Modha, FAST 2003",
    ),
    EvictionPolicy(
        name="mq",
        way="builtin",
        summary="a queue for each power of two of uses, idle blocks move down",
        source="Zhou, Philbin and Li, USENIX 2001",
        options=MqOptions,
    ),
    EvictionPolicy(
        name="s3-fifo",
        way="builtin",
        summary="a small FIFO filters what is used once",
        source="Yang et al., SOSP 2023",
        options=S3FifoOptions,
    ),
    EvictionPolicy(
        name="opt",
        way="builtin",
        summary="farthest next use first; may refuse an insertion",
        source="Belady, IBM Systems Journal 5(2), 1966",
        replay_only=True,
    ),
    EvictionPolicy(
        name="opt-forced",
        way="builtin",
        summary="farthest next use first; every block is inserted",
        source="Belady, IBM Systems Journal 5(2), 1966",
        replay_only=True,
    ),
    EvictionPolicy(
        name="infinite",
        way="builtin",
        summary="nothing is ever evicted: the bound of every policy",
        replay_only=True,
    ),
)


@hookimpl
def kvframe_eviction() -> tuple[EvictionPolicy, ...]:
    """The eviction policies that the core runs itself."""
    return BUILTIN
