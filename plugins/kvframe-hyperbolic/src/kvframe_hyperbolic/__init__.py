"""Hyperbolic caching for kvframe: a native policy, compiled by numba when it is first made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

import kvframe
from kvframe.native import NativePolicy


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of ``hyperbolic``."""

    sample: Annotated[
        int, msgspec.Meta(ge=1, le=2**31, description="Blocks looked at for each victim.")
    ] = 64
    seed: Annotated[
        int, msgspec.Meta(ge=0, le=2**63 - 1, description="Where the drawing of samples starts.")
    ] = 0


def make(options: Options) -> NativePolicy:
    """The policy with these options."""
    from kvframe_hyperbolic.policy import policy  # numba takes a second to import

    return policy(options.sample, options.seed)


@kvframe.hookimpl
def kvframe_eviction() -> Iterable[kvframe.EvictionPolicy]:
    """The policies of this package."""
    yield kvframe.EvictionPolicy(
        name="hyperbolic",
        way="native",
        summary="fewest uses by time in the cache first, of a sample",
        source="Blankstein, Sen and Freedman, USENIX ATC 2017",
        options=Options,
        make=make,
    )
