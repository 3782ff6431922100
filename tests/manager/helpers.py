"""Small managers, policies of the test's own, and the whole visible state of a manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from kvframe import (
    CacheConfig,
    Config,
    EvictionConfig,
    EvictionPolicy,
    GroupConfig,
    KVCacheManager,
    Registry,
    hookimpl,
)

VERSION = "3.2.1"

INDEX = ["hash"]
"""The index of managers that do not say which, where it serves their groups (see conftest.py)."""


class Holder:
    """A plugin of the running test: one batched policy."""

    def __init__(
        self, name: str, make: Callable[[Any], object], options: type[msgspec.Struct] | None = None
    ) -> None:
        self.policy = EvictionPolicy(
            name=name, way="batched", summary="a policy of a test", make=make, options=options
        )

    @hookimpl
    def kvframe_eviction(self) -> list[EvictionPolicy]:
        return [self.policy]


@cache
def installed() -> Registry:
    """What is installed, looked up once: that takes longer than most tests of a manager."""
    return Registry()


def registry(
    name: str, make: Callable[[Any], object], options: type[msgspec.Struct] | None = None
) -> Registry:
    """A registry that knows one policy more, of the distribution ``kvframe-test 3.2.1``."""
    found = Registry()
    found.register(Holder(name, make, options), name, "kvframe-test", VERSION)
    return found


def manager(
    blocks: int = 8,
    block_size: int = 4,
    *,
    policy: str = "lru",
    known: Registry | None = None,
    on_error: Any = "raise",
    window: int | None = None,
    budget_ms: float | None = None,
    groups: Sequence[GroupConfig] = (),
    **cache: Any,
) -> KVCacheManager:
    """A manager of a few small blocks; ``cache`` goes into ``[cache]``."""
    if all(group.kind == "full" for group in groups):
        cache.setdefault("index", INDEX[0])
    config = Config(
        cache=CacheConfig(capacity=blocks, block_size=block_size, **cache),
        eviction=EvictionConfig(
            policy=policy, on_error=on_error, window=window, budget_ms=budget_ms
        ),
        groups=list(groups) or [GroupConfig(name="full")],
    )
    return KVCacheManager(config.resolve(known or installed()))


def cached(kv: KVCacheManager, tokens: Iterable[int], **space: Any) -> None:
    """Leaves the full blocks of ``tokens`` cached and owned by nobody."""
    grant = kv.allocate(list(tokens), **space)
    kv.commit(grant.seq, grant.prompt_tokens)
    kv.release(grant.seq)


def state(kv: KVCacheManager, seqs: Iterable[int] = ()) -> object:
    """All that a caller can see, less the counters of refusals and of policy failures."""
    stats = {
        k: v for k, v in kv.stats.counters().items() if k not in ("refused", "policy_failures")
    }
    groups = range(len(kv.inspect.options()["groups"]))
    return (
        kv.counts(),
        stats,
        kv.inspect.eviction_order().tolist(),
        [
            (seq, kv.lengths(seq), [kv.block_table(seq, group).tolist() for group in groups])
            for seq in seqs
        ],
    )
