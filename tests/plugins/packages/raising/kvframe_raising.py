"""A plugin whose descriptor is refused while its hook runs."""

from collections.abc import Iterator

import kvframe


@kvframe.hookimpl
def kvframe_eviction() -> Iterator[kvframe.EvictionPolicy]:
    yield kvframe.EvictionPolicy(name="Raising!", way="batched", summary="", make=print)
