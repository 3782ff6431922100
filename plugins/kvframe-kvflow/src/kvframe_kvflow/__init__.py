"""KVFlow's workflow-aware order as an eviction policy for kvframe."""

from __future__ import annotations

from collections.abc import Iterator

from kvframe import EvictionPolicy, hookimpl
from kvframe_kvflow.policy import Options, StepsToExecution

__all__ = ["Options", "StepsToExecution", "kvframe_eviction"]


@hookimpl
def kvframe_eviction() -> Iterator[EvictionPolicy]:
    """The policy ``kvflow``."""
    yield EvictionPolicy(
        name="kvflow",
        way="batched",
        summary="most steps to its agent's next turn first, then least recently used",
        source="KVFlow: Pan et al., NeurIPS 2025, arXiv 2507.07400",
        options=Options,
        make=StepsToExecution,
    )
