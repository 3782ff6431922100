"""A plugin whose hook has a typing mistake in its name."""

import kvframe


@kvframe.hookimpl
def kvframe_evicton() -> list[kvframe.EvictionPolicy]:
    return []
