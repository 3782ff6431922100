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
