"""A prefix matcher for kvframe that puts fixed tokens where prompts differ every time."""

from __future__ import annotations

from collections.abc import Iterator

from kvframe import PrefixMatcher, hookimpl
from kvframe_volatile.policy import Options, Volatile

__all__ = ["Options", "Volatile", "kvframe_prefix"]


@hookimpl
def kvframe_prefix() -> Iterator[PrefixMatcher]:
    """The matcher ``volatile``."""
    yield PrefixMatcher(
        name="volatile",
        way="batched",
        summary="marked spans of a prompt's head, such as a date, are put in one form",
        options=Options,
        make=Volatile,
    )
