"""Statistics of a manager, which count each admission once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class MissReason(IntEnum):
    """Why an admission found no more of its prompt: the first that holds."""

    BELOW_UNIT = 0
    """The rest of the prompt is shorter than the least reusable unit: a block, or what all groups
    share."""
    LAST_TOKEN = 1
    """All was found but the block with the last token, which is always computed."""
    NEVER_SEEN = 2
    """The next block's key was not seen lately."""
    EVICTED = 3
    """The next block was evicted lately."""
    CLEARED = 4
    """The next block was forgotten lately: a reset, a pool that shrank."""
    OTHER_SPACE = 5
    """The prompt was seen lately, under another salt, adapter, encoder input or other weights."""
    COLLISION = 6
    """The next block's key stands for other tokens."""
    GROUP = 7
    """Another layer group could have gone on; the one named could not."""
    CACHING_OFF = 8
    """The manager looks nothing up."""
    READ_SKIPPED = 9
    """The request asked not to look (``read=False``)."""


class Miss(NamedTuple):
    """Where and why the prefix of one admission ended.

    Attributes:
        reason: Why.
        group: The layer group that could not go on, for ``GROUP``.
        wanted: Full blocks that were looked for.
        ago: Ticks since the next block left the cache, for ``EVICTED`` and ``CLEARED``.
    """

    reason: MissReason
    group: int | None
    wanted: int
    ago: int | None


def miss_of(told: tuple[int, int, int, int | None] | None) -> Miss | None:
    """A miss, from the core's values."""
    if told is None:
        return None
    number, group, wanted, ago = told
    reason = MissReason(number)
    return Miss(reason, group if reason is MissReason.GROUP else None, wanted, ago)


class Rates(NamedTuple):
    """Shares from 0 to 1, 0 where nothing was asked.

    Resumed sequences are not counted. Requests that do not read the cache are not counted either:
    those with ``read_cache=False``, or with an encoder input that has no id.

    Attributes:
        requests: Admissions counted.
        tokens: Prompt tokens found, of all prompt tokens.
        with_hit: Admissions that found something, of those counted.
    """

    requests: int
    tokens: float
    with_hit: float


@dataclass(frozen=True)
class HitRates:
    """Hit rates since the start, and over the last 1,000 admissions.

    Attributes:
        total: Since the start.
        recent: Of the last 1,000 admissions (vLLM's ``CachingMetrics``).
        blocks: Blocks found, of the full blocks that lookups may cover, since the start.
        mean: Mean over these admissions of the share of the prompt found, to a millionth.
        resumed: Tokens that preempted sequences found again, of all their tokens.
    """

    total: Rates
    recent: Rates
    blocks: float
    mean: float
    resumed: float


@dataclass(frozen=True)
class Misses:
    """Why prefixes ended, over all admissions but resumed ones.

    Attributes:
        requests: Admissions by reason.
        tokens: Prompt tokens that were not found, by reason.
        groups: Admissions that each layer group cut short.
        unit: Tokens of the least that is reused: a block, or what the blocks of all groups share.
    """

    requests: Mapping[MissReason, int]
    tokens: Mapping[MissReason, int]
    groups: tuple[int, ...]
    unit: int


@dataclass(frozen=True)
class BlockLifetimes:
    """How long sampled blocks live and lie idle, in ticks of the logical clock.

    Each is uint64 of 65 counts: ``counts[0]`` is of 0 ticks, ``counts[i]`` of 2^(i-1) to 2^i - 1.

    Attributes:
        lifetime: From when a block became findable to its eviction.
        idle: From its last use (an admission found it) to its eviction.
        gap: From one use to the next.
    """

    lifetime: npt.NDArray[np.uint64]
    idle: npt.NDArray[np.uint64]
    gap: npt.NDArray[np.uint64]


def share(part: float, whole: float) -> float:
    """``part / whole``; 0 if ``whole`` is 0."""
    return part / whole if whole else 0.0


def hit_rates(stats: Mapping[str, int], recent: tuple[int, int, int, int]) -> HitRates:
    """Hit rates from a manager's counters and from its window of recent admissions.

    The window is given as (requests, requests with a hit, prompt tokens, hit tokens).
    """
    requests, with_hit, prompt, found = recent
    admitted = stats["requests"] - stats["unread"]
    resumed = stats["resumed_tokens"] - stats["resumed_unread_tokens"]
    return HitRates(
        total=Rates(
            admitted,
            share(stats["hit_tokens"], stats["prompt_tokens"] - stats["unread_tokens"]),
            share(stats["requests_with_hit"], admitted),
        ),
        recent=Rates(requests, share(found, prompt), share(with_hit, requests)),
        blocks=share(stats["hit_blocks"], stats["lookup_blocks"]),
        mean=share(stats["hit_share_ppm"], admitted * 1_000_000),
        resumed=share(stats["resumed_hit_tokens"], resumed),
    )
