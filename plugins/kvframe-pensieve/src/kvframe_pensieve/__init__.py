"""Pensieve's retention value as an eviction policy for kvframe."""

from __future__ import annotations

from collections.abc import Iterator

from kvframe import EvictionPolicy, hookimpl
from kvframe_pensieve.policy import Options, RetentionValue

__all__ = ["Options", "RetentionValue", "kvframe_eviction"]


@hookimpl
def kvframe_eviction() -> Iterator[EvictionPolicy]:
    """The policy ``pensieve``."""
    yield EvictionPolicy(
        name="pensieve",
        way="batched",
        summary="lowest recompute cost by idle time first",
        source="Pensieve: Yu, Lin and Li, EuroSys 2025, arXiv 2312.05516",
        options=Options,
        make=RetentionValue,
    )
