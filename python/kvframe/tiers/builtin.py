"""The stores that come with kvframe, as a plugin like any other."""

from __future__ import annotations

from kvframe.registry.descriptors import TierStore
from kvframe.registry.hookspecs import hookimpl
from kvframe.tiers.disk import Disk, DiskOptions

STORES = (
    TierStore(
        name="disk",
        way="batched",
        summary="a folder on a local disk, a file a page",
        source="as LMCache's and llm-d's file stores",
        options=DiskOptions,
        make=Disk,
    ),
)


@hookimpl
def kvframe_store() -> tuple[TierStore, ...]:
    """Every built-in store."""
    return STORES
