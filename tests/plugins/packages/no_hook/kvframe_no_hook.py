"""A plugin whose author forgot to mark the hook."""

import kvframe


def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
    return []
