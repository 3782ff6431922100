"""A plugin whose store and eviction policy bear names that kvframe gives to other kinds."""

import kvframe


@kvframe.hookimpl
def kvframe_store() -> list[kvframe.TierStore]:
    return [kvframe.TierStore(name="lru", way="batched", summary="a store", make=print)]


@kvframe.hookimpl
def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
    return [kvframe.EvictionPolicy(name="disk", way="batched", summary="a policy", make=print)]
