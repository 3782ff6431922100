"""Tail-Optimized LRU as an eviction policy for kvframe."""

from __future__ import annotations

from collections.abc import Iterator

from kvframe import EvictionPolicy, hookimpl
from kvframe_tlru.policy import Options, TailOptimizedLru

__all__ = ["Options", "TailOptimizedLru", "kvframe_eviction"]


@hookimpl
def kvframe_eviction() -> Iterator[EvictionPolicy]:
    """The policy ``t-lru``."""
    yield EvictionPolicy(
        name="t-lru",
        way="batched",
        summary="blocks whose loss keeps the next prefill in budget, then least recently used",
        source="arXiv 2510.15152 (NeurIPS 2025); SGLang",
        options=Options,
        make=TailOptimizedLru,
    )
