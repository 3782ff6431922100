"""A plugin that gives a dict where a descriptor belongs."""

import kvframe


@kvframe.hookimpl
def kvframe_eviction() -> list[dict[str, str]]:
    return [{"name": "wrong-type"}]
