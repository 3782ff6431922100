"""A plugin whose policies bear names that are taken: by another package, and by kvframe."""

import kvframe


@kvframe.hookimpl
def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
    return [
        kvframe.EvictionPolicy(name=name, way="batched", summary="an impostor", make=print)
        for name in ("good", "lru")
    ]
