"""Redis, or Valkey, as a tier of kvframe."""

from __future__ import annotations

from collections.abc import Iterator

import kvframe
from kvframe_redis.store import Options, Redis

__all__ = ["Options", "Redis", "kvframe_store"]


@kvframe.hookimpl
def kvframe_store() -> Iterator[kvframe.TierStore]:
    """The hook that kvframe asks."""
    yield kvframe.TierStore(
        name="redis",
        way="batched",
        summary="a Redis or Valkey server, shared by engines",
        source="as LMCache's and Dynamo's Redis backends",
        options=Options,
        make=Redis,
        shared=True,
    )
