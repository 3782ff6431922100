"""Mooncake Store as a tier of kvframe."""

from __future__ import annotations

from collections.abc import Iterator

import kvframe
from kvframe_mooncake.store import Mooncake, Options

__all__ = ["Mooncake", "Options", "kvframe_store"]


@kvframe.hookimpl
def kvframe_store() -> Iterator[kvframe.TierStore]:
    """The hook that kvframe asks."""
    yield kvframe.TierStore(
        name="mooncake",
        way="batched",
        summary="Mooncake Store: the memory of many machines",
        source="Qin et al., Mooncake, FAST 2025",
        options=Options,
        make=Mooncake,
        shared=True,
    )
