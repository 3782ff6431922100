"""A plugin whose policy is not called what its entry point announces."""

import kvframe


@kvframe.hookimpl
def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
    return [kvframe.EvictionPolicy(name="delivered", way="batched", summary="", make=print)]
