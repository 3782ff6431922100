"""The built-in prefix matchers: the core's two indexes, and rules for how much of a hit is used."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies.prefix import BatchedPrefix, Prompts
from kvframe.registry.descriptors import PrefixMatcher
from kvframe.registry.hookspecs import hookimpl

INDEXES = ("hash", "radix")
"""Matchers that the core runs itself; `cache.index` names one too."""

Positive = Annotated[float, msgspec.Meta(gt=0)]


class MinHitOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``min-hit``."""

    min_tokens: Annotated[
        int,
        msgspec.Meta(ge=0, le=2**32 - 1, description="Shorter prefixes are computed again."),
    ] = 256


class MinHit(BatchedPrefix):
    """Use a found prefix only if it has at least ``min_tokens`` tokens; then use all of it."""

    def __init__(self, options: MinHitOptions) -> None:
        self.min_tokens = options.min_tokens

    def take(
        self, prompts: Prompts, found: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
    ) -> None:
        """Use no token of a prefix below the minimum."""
        out[found < self.min_tokens] = 0


class LoadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``load-or-recompute``: what loading and computing take."""

    bytes_per_token: Annotated[Positive, msgspec.Meta(description="KV bytes of a token.")] = 131072
    bandwidth: Annotated[
        Positive, msgspec.Meta(description="Bytes a second from where the KV lies.")
    ] = 20e9
    latency: Annotated[
        float, msgspec.Meta(ge=0, description="Seconds until the first byte arrives.")
    ] = 0.0005
    flops_per_token: Annotated[
        Positive, msgspec.Meta(description="Operations per token: twice the parameters.")
    ] = 16e9
    attention_flops: Annotated[
        float,
        msgspec.Meta(ge=0, description="Operations per token for each token before it."),
    ] = 524288.0
    flops: Annotated[
        Positive, msgspec.Meta(description="Operations per second that a prefill achieves.")
    ] = 4e14


class LoadOrRecompute(BatchedPrefix):
    """Loads KV that can come from elsewhere where that is faster than computing it.

    Loading takes ``latency + tokens * bytes_per_token / bandwidth``, computing ``tokens *
    (flops_per_token + attention_flops * place) / flops``, by the place in the prompt: loading wins
    from some length on. All of it or nothing.
    """

    def __init__(self, options: LoadOptions) -> None:
        self.options = options

    def load(
        self,
        prompts: Prompts,
        found: npt.NDArray[np.int64],
        offered: npt.NDArray[np.int64],
        out: npt.NDArray[np.int64],
    ) -> None:
        """Load no token where computing is faster."""
        o = self.options
        loading = o.latency + offered * (o.bytes_per_token / o.bandwidth)
        place = found + offered / 2
        computing = offered * (o.flops_per_token + o.attention_flops * place) / o.flops
        out[computing < loading] = 0


BUILTIN_PREFIX = (
    PrefixMatcher(
        name="hash",
        way="builtin",
        summary="blocks by chained keys in one table",
        source="vLLM",
    ),
    PrefixMatcher(
        name="radix",
        way="builtin",
        summary="blocks by their tokens in a tree",
        source="RadixAttention: Zheng et al., 2024",
    ),
    PrefixMatcher(
        name="min-hit",
        way="batched",
        summary="a found prefix is taken from a minimum length on",
        source="SGLang HiCache: load-back threshold",
        options=MinHitOptions,
        make=MinHit,
    ),
    PrefixMatcher(
        name="load-or-recompute",
        way="batched",
        summary="external KV is loaded where that is sooner than computing",
        source="Cake: Jin et al., 2024; CachedAttention: Gao et al., ATC 2024",
        options=LoadOptions,
        make=LoadOrRecompute,
    ),
)


@hookimpl
def kvframe_prefix() -> tuple[PrefixMatcher, ...]:
    """The prefix matchers that ship."""
    return BUILTIN_PREFIX
